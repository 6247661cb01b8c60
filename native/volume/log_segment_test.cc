#include "volume/log_segment.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/crc32c.h"
#include "files/crash_file_system.h"
#include "reactor/reactor.h"

namespace hearth {
namespace {

using Bytes = std::vector<std::byte>;

std::string hexOf(const Bytes& bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
    hex += digits;
  }
  return hex;
}

Bytes& operator+=(Bytes& to, const Bytes& from) {
  to.insert(to.end(), from.begin(), from.end());
  return to;
}

const SegmentHead kHead{.store = {1}, .volume = {2}, .firstRecord = 7};

// A group of records without changes, from this number on, behind so many synced bytes.
Bytes groupOf(std::uint64_t offset, std::uint64_t first, std::uint64_t count,
              std::uint64_t synced) {
  Bytes records;
  for (std::uint64_t i = 0; i < count; ++i) tree::appendRecord(records, {1, first + i, {}});
  Bytes group = encodeGroupHead(offset, synced, records.size());
  group += records;
  return group;
}

struct LogSegment : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::vector<std::uint64_t> numbers;

  Result<SegmentReport> read(const Bytes& bytes) {
    numbers.clear();
    return reactor->runUntilComplete(readBytes(*reactor, files, bytes, numbers));
  }
  static Task<Result<SegmentReport>> readBytes(Reactor& on, FileSystem& files, Bytes bytes,
                                               std::vector<std::uint64_t>& numbers) {
    auto file = co_await files.open("/s", {.write = true, .create = true, .truncate = true});
    const Status written = co_await (*file)->writeAt(bytes, 0);
    if (!written.ok()) co_return written.error();
    co_return co_await readSegment({on}, **file, "/s",
                                   [&numbers](std::span<const std::byte> record) {
                                     numbers.push_back(tree::parseRawRecord(record).number);
                                     return Status();
                                   });
  }
};

using Numbers = std::vector<std::uint64_t>;

// Every later release reads these bytes.
TEST_F(LogSegment, Bytes) {
  EXPECT_EQ(hexOf(encodeSegmentHead(kHead)),
            "48525448564c4f470100000000000000010000000000000000000000000000000200000000000000000000"
            "000000000007000000000000000000000001a1152f");
  EXPECT_EQ(hexOf(encodeGroupHead(96, 64, 100)),
            "dbaf32d37c00000060000000000000004000000000000000");
}

TEST_F(LogSegment, GivesRecordsOfWholeGroups) {
  Bytes bytes = encodeSegmentHead(kHead);
  EXPECT_EQ(read(bytes)->lastRecord, 6u);
  bytes += groupOf(bytes.size(), 7, 2, bytes.size());
  const std::size_t sound = bytes.size();
  const auto whole = read(bytes);
  EXPECT_EQ(whole->head, kHead);
  EXPECT_EQ(numbers, (Numbers{7, 8}));
  EXPECT_FALSE(whole->torn);
  bytes += groupOf(bytes.size(), 9, 1, bytes.size());
  for (std::size_t size = sound + 1; size < bytes.size(); ++size) {
    const auto report =
        read(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)));
    ASSERT_TRUE(report.ok() && report->torn) << size;
    ASSERT_EQ(report->goodBytes, sound);
    ASSERT_EQ(numbers, (Numbers{7, 8}));
  }
}

TEST_F(LogSegment, AGroupThatDoesNotFollowIsNoneOfTheLog) {
  Bytes bytes = encodeSegmentHead(kHead);
  bytes += groupOf(bytes.size(), 8, 1, bytes.size());
  EXPECT_TRUE(read(bytes)->torn);
  bytes += groupOf(bytes.size(), 9, 1, bytes.size());
  EXPECT_EQ(read(bytes).code(), ErrorCode::kCorrupt);
}

// Pages that were not synced reach the disk in any order.
TEST_F(LogSegment, DamageThatNoGroupCallsSyncedEndsTheLog) {
  Bytes bytes = encodeSegmentHead(kHead);
  const std::size_t head = bytes.size();
  bytes += groupOf(bytes.size(), 7, 1, head);
  const std::size_t lost = bytes.size();
  bytes += groupOf(bytes.size(), 8, 1, head);
  bytes += groupOf(bytes.size(), 9, 1, lost);
  bytes[lost] ^= std::byte{1};
  const auto report = read(bytes);
  ASSERT_TRUE(report.ok() && report->torn);
  EXPECT_EQ(report->goodBytes, lost);
  bytes[lost] ^= std::byte{1};
  bytes[head] ^= std::byte{1};
  EXPECT_EQ(read(bytes).code(), ErrorCode::kCorrupt);
}

TEST_F(LogSegment, ALaterReleaseIsLeftAlone) {
  Bytes bytes = encodeSegmentHead(kHead);
  bytes[8] = std::byte{2};
  const std::uint32_t checksum = crc32c(std::span(bytes).first(60));
  for (std::size_t i = 0; i < 4; ++i) bytes[60 + i] = static_cast<std::byte>(checksum >> (8 * i));
  EXPECT_EQ(read(bytes).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hearth
