#include "fuse/read_ahead.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kSize = 1024 * kMiB;

TEST(ReadAhead, OneReadProvesNothing) {
  ReadAhead ahead;
  EXPECT_FALSE(ahead.observe(0, 1 << 20, kSize, {}).fetch);
}

TEST(ReadAhead, WindowsGrowAndDoNotOverlap) {
  ReadAhead ahead;
  const ReadAheadOptions options{.wholeFileAfter = 0};
  std::vector<ReadAhead::Hint> hints;
  for (std::uint64_t at = 0; at < 256 * kMiB; at += kMiB) {
    if (const auto hint = ahead.observe(at, kMiB, kSize, options).fetch) hints.push_back(*hint);
  }
  ASSERT_GT(hints.size(), 4U);
  EXPECT_EQ(hints[0].offset, 2 * kMiB);
  EXPECT_EQ(hints[0].length, 4 * kMiB);
  for (std::size_t i = 1; i < hints.size(); ++i) {
    EXPECT_EQ(hints[i].offset, hints[i - 1].offset + hints[i - 1].length);
    EXPECT_LE(hints[i].length, 64 * kMiB);
  }
}

TEST(ReadAhead, WholeFileOnceAReaderGoesOn) {
  ReadAhead ahead;
  std::vector<ReadAhead::Hint> hints;
  for (std::uint64_t at = 0; at < 32 * kMiB; at += kMiB) {
    if (const auto hint = ahead.observe(at, kMiB, kSize, {}).fetch) hints.push_back(*hint);
  }
  ASSERT_FALSE(hints.empty());
  EXPECT_EQ(hints.back().offset + hints.back().length, kSize);
  const auto count = hints.size();
  EXPECT_LE(count, 3U);
  EXPECT_FALSE(ahead.observe(0, kMiB, kSize, {}).fetch);
}

TEST(ReadAhead, SmallDisorderIsOrder) {
  ReadAhead ahead;
  bool hinted = false;
  for (std::uint64_t at = 0; at < 8 * kMiB; at += 2 * kMiB) {
    hinted |= ahead.observe(at + kMiB, kMiB, kSize, {}).fetch.has_value();
    hinted |= ahead.observe(at, kMiB, kSize, {}).fetch.has_value();
  }
  EXPECT_TRUE(hinted);
}

TEST(ReadAhead, RandomReadersGetNothing) {
  ReadAhead ahead;
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t page = random() % (100 * kSize / 4096);
    EXPECT_FALSE(ahead.observe(page * 4096, 4096, 100 * kSize, {}).fetch);
  }
}

TEST(ReadAhead, FourReadersAtOnce) {
  ReadAhead ahead;
  const ReadAheadOptions options{.wholeFileAfter = 0};
  int hints = 0;
  for (std::uint64_t at = 0; at < 8 * kMiB; at += kMiB) {
    for (std::uint64_t reader = 0; reader < 4; ++reader) {
      hints +=
          ahead.observe(reader * 200 * kMiB + at, kMiB, kSize, options).fetch.has_value() ? 1 : 0;
    }
  }
  EXPECT_GE(hints, 8);
}

TEST(ReadAhead, WhatIsCloseAheadComesIntoMemory) {
  ReadAhead ahead;
  std::uint64_t loaded = 0;
  for (std::uint64_t at = 0; at < 256 * kMiB; at += kMiB) {
    const auto wanted = ahead.observe(at, kMiB, 256 * kMiB, {});
    if (!wanted.load) continue;
    if (loaded != 0) EXPECT_EQ(wanted.load->offset, loaded) << "nothing twice, and no gap";
    loaded = wanted.load->offset + wanted.load->length;
    EXPECT_LE(loaded, at + kMiB + ReadAheadOptions{}.loadWindow);
    EXPECT_LE(loaded, std::max(2 * (at + kMiB), 6 * kMiB)) << "as far as the reader has come";
  }
  EXPECT_EQ(loaded, 256 * kMiB) << "also when the whole file is fetched already";
}

TEST(ReadAhead, NothingComesIntoMemoryForRandomReaders) {
  ReadAhead ahead;
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t page = random() % (100 * kSize / 4096);
    EXPECT_FALSE(ahead.observe(page * 4096, 4096, 100 * kSize, {}).load);
  }
}

TEST(ReadAhead, WhoReadsALittleHereAndThereLoadsNothing) {
  ReadAhead ahead;
  for (std::uint64_t at = 0; at < 512 * kMiB; at += kMiB / 2)
    EXPECT_FALSE(ahead.observe(at, 64 << 10, kSize, {}).load) << at;
}

TEST(ReadAhead, NothingBeyondTheEnd) {
  ReadAhead ahead;
  for (std::uint64_t at = 0; at < 6 * kMiB; at += kMiB) {
    if (const auto hint = ahead.observe(at, kMiB, 6 * kMiB, {}).fetch) {
      EXPECT_LE(hint->offset + hint->length, 6 * kMiB);
      EXPECT_GT(hint->length, 0U);
    }
  }
  EXPECT_FALSE(ahead.observe(6 * kMiB, kMiB, 6 * kMiB, {}).fetch);
}

}  // namespace
}  // namespace hearth
