#include "volume/log_tail.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "base/crc32c.h"
#include "volume/testing/tmpfs_folder.h"

namespace hearth {
namespace {

using Bytes = std::vector<std::byte>;

const SegmentHead kSegment{.store = {1}, .volume = {2}, .firstRecord = 7};

Bytes groupOf(std::uint64_t offset, std::uint64_t first, std::uint64_t count) {
  Bytes records;
  for (std::uint64_t i = 0; i < count; ++i) tree::appendRecord(records, {1, first + i, {}});
  Bytes group = encodeGroupHead(offset, offset, records.size());
  group.insert(group.end(), records.begin(), records.end());
  return group;
}

struct LogTailTest : testing::Test {
  testing_support::TmpfsFolder tmpfs;
  const std::string path = tmpfs.path() + "/volumes/tail";

  Bytes contents() const {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  void setContents(const Bytes& bytes) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  // Numbers of the records that the next process finds behind the segment's last ones.
  std::vector<std::uint64_t> found(std::uint64_t offset, std::uint64_t lastRecord) const {
    std::vector<std::uint64_t> numbers;
    const auto tail = LogTail::find(path);
    const auto left = (*tail)->left();
    if (!left || left->segment != kSegment || left->offset > offset) return numbers;
    SegmentReport report{.goodBytes = offset, .lastRecord = lastRecord};
    const auto each = [&numbers](std::span<const std::byte> record) {
      numbers.push_back(tree::parseRawRecord(record).number);
      return Status();
    };
    EXPECT_TRUE(takeGroups(left->bytes.subspan(offset - left->offset), report, each, path).ok());
    return numbers;
  }
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(LogTailTest, GivesGroupsBack) {
  EXPECT_EQ(*LogTail::find(path), nullptr);
  auto tail = std::move(*LogTail::make(path));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_GE(static_cast<std::size_t>(info.st_blocks) * 512, LogTail::kBytes);
  ASSERT_EQ(::stat((tmpfs.path() + "/volumes").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_FALSE(tail->left());
  tail->begin(kSegment);
  EXPECT_FALSE(tail->left());
  const Bytes first = groupOf(64, 7, 2), second = groupOf(64 + first.size(), 9, 1);
  tail->append(first);
  tail->append(second);
  EXPECT_TRUE(std::ranges::equal(tail->last(second.size()), second));
  EXPECT_EQ(found(64, 6), (Numbers{7, 8, 9}));
  EXPECT_EQ(found(64 + first.size(), 8), (Numbers{9}));
  EXPECT_EQ(found(64 + first.size(), 9), Numbers());
  EXPECT_EQ(found(64 + first.size() + second.size(), 9), Numbers());
  // The next lap is of later groups.
  tail->begin(kSegment);
  tail->append(groupOf(500, 10, 1));
  EXPECT_EQ(found(500, 9), (Numbers{10}));
}

TEST_F(LogTailTest, EndsBeforeItsFileDoes) {
  auto tail = std::move(*LogTail::make(path));
  tail->begin(kSegment);
  const Bytes group = groupOf(64, 7, 1);
  std::uint64_t offset = 64, record = 6;
  while (tail->room() >= group.size()) {
    tail->append(groupOf(offset, ++record, 1));
    offset += group.size();
  }
  EXPECT_EQ(found(64, 6).size(), record - 6);
  EXPECT_GT(2 * group.size() + kSegmentHeadBytes + kGroupHeadBytes,
            LogTail::kBytes - (offset - 64));
}

// The kernel keeps what a killed process has stored, whichever part of a group that is.
TEST_F(LogTailTest, AHalfCopiedGroupIsNone) {
  auto tail = std::move(*LogTail::make(path));
  tail->begin(kSegment);
  const Bytes older = groupOf(64, 7, 3);
  tail->append(older);
  tail->append(groupOf(64 + older.size(), 10, 1));
  const auto expectNoneOfPartOf = [this](const Bytes& before, std::size_t bytes,
                                         std::uint64_t offset, std::uint64_t last) {
    const Bytes after = contents();
    std::mt19937_64 random(1);
    std::vector<std::size_t> changed;
    for (std::size_t i = 0; i < bytes; ++i) {
      if (before[i] != after[i]) changed.push_back(i);
    }
    for (std::size_t count = 0; count < changed.size(); ++count) {
      std::ranges::shuffle(changed, random);
      for (const bool ordered : {true, false}) {
        Bytes part = before;
        if (ordered) std::ranges::sort(changed);
        for (std::size_t i = 0; i < count; ++i) part[changed[i]] = after[changed[i]];
        setContents(part);
        ASSERT_EQ(found(offset, last), Numbers()) << count << " bytes";
        if (ordered) std::ranges::shuffle(changed, random);
      }
    }
    setContents(after);
  };
  Bytes before = contents();
  const Bytes newer = groupOf(5000, 30, 2);
  tail->begin(kSegment);
  tail->append(newer);
  // Zeros behind the group end it for the next one only.
  expectNoneOfPartOf(before, kSegmentHeadBytes + newer.size(), 5000, 29);
  EXPECT_EQ(found(5000, 29), (Numbers{30, 31}));
  // Nor is the head of a segment, in front of groups of another one.
  before = contents();
  SegmentHead next = kSegment;
  next.firstRecord = 32;
  tail->begin(next);
  EXPECT_EQ(found(5000, 29), Numbers());
  tail->begin(kSegment);
  EXPECT_EQ(contents(), before);
}

TEST_F(LogTailTest, WhatCannotBeUsedIsNone) {
  EXPECT_EQ(LogTail::make("/proc/hearth/tail").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(LogTail::make(tmpfs.path() + "/none/volumes/tail").code(), ErrorCode::kNotFound);
  // A process ended while it made the file.
  ASSERT_TRUE(LogTail::make(path).ok());
  setContents({});
  EXPECT_EQ(*LogTail::find(path), nullptr);
  ASSERT_TRUE(LogTail::make(path).ok());
  EXPECT_FALSE((*LogTail::find(path))->left());
  EXPECT_FALSE(LogTail::find(tmpfs.path() + "/volumes").ok());
}

TEST_F(LogTailTest, ALaterReleaseIsLeftAlone) {
  (*LogTail::make(path))->begin(kSegment);
  Bytes bytes = contents();
  bytes[8] = std::byte{2};
  const std::uint32_t checksum = crc32c(std::span(bytes).first(60));
  for (std::size_t i = 0; i < 4; ++i) bytes[60 + i] = static_cast<std::byte>(checksum >> (8 * i));
  setContents(bytes);
  EXPECT_EQ(LogTail::find(path).code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hearth
