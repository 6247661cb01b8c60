#include "memory_files/memory_room.h"

#include <gmock/gmock.h>

namespace hearth {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kFile = 1 << 20;

ContentKey keyOf(std::uint8_t n) {
  ContentKey key;
  key.bytes[0] = n;
  return key;
}

class MemoryRoomTest : public ::testing::Test {
 protected:
  // At second `at` of the test.
  static Clock::time_point second(int at) { return start() + std::chrono::seconds(at); }
  static Clock::time_point start() {
    static const Clock::time_point begun = Clock::now();
    return begun;
  }
  MemoryRoom::Answer claim(std::uint8_t key, MemoryRank rank, int since) {
    return room_.claim({keyOf(key), kFile, rank, second(since)}, staying_);
  }
  // A whole file that was used last at second `used`.
  void fill(std::uint8_t key, MemoryRank rank, int used) {
    ASSERT_TRUE(claim(key, rank, 0).taken);
    ASSERT_TRUE(room_.filled(keyOf(key)));
    room_.noteUse(keyOf(key), second(used));
  }

  MemoryRoom room_{3 * kFile};
  MemoryRoom::Keys staying_;
};

TEST_F(MemoryRoomTest, CountsFilesThatAreWholeAndBytesOfAll) {
  fill(1, MemoryRank::kWarm, 100);
  EXPECT_TRUE(claim(2, MemoryRank::kWarm, 0).taken);
  room_.noteHuge(keyOf(2), kFile / 2);
  const MemoryRoom::Use use = room_.use();
  EXPECT_EQ(use.usedBytes, 2 * kFile);
  EXPECT_EQ(use.hugeBytes, kFile / 2);
  EXPECT_EQ(use.files, 1u);
  room_.release(keyOf(2));
  EXPECT_EQ(room_.use().usedBytes, kFile);
}

TEST_F(MemoryRoomTest, NamesTheFileThatWasUsedLongestAgo) {
  fill(1, MemoryRank::kWarm, 300);
  fill(2, MemoryRank::kWarm, 100);
  fill(3, MemoryRank::kWarm, 200);
  EXPECT_THAT(claim(4, MemoryRank::kWarm, 1000).victims, ElementsAre(keyOf(2)));
}

TEST_F(MemoryRoomTest, AModelLargerThanTheBudgetEvictsNoneOfItsOwnFiles) {
  for (std::uint8_t key = 1; key <= 3; ++key) fill(key, MemoryRank::kWarm, 500);
  const MemoryRoom::Answer answer = claim(4, MemoryRank::kWarm, 400);
  EXPECT_FALSE(answer.taken);
  EXPECT_THAT(answer.victims, IsEmpty());
}

TEST_F(MemoryRoomTest, AHigherRankTakesTheRoomOfALowerOne) {
  fill(1, MemoryRank::kMemory, 100);
  fill(2, MemoryRank::kUse, 900);
  fill(3, MemoryRank::kWarm, 900);
  EXPECT_THAT(claim(4, MemoryRank::kWarm, 0).victims, ElementsAre(keyOf(2)));
  EXPECT_THAT(claim(4, MemoryRank::kUse, 0).victims, IsEmpty());
}

TEST_F(MemoryRoomTest, NamesNoFileInVain) {
  fill(1, MemoryRank::kUse, 100);
  EXPECT_TRUE(claim(2, MemoryRank::kWarm, 0).taken);  // being filled, so it stays
  EXPECT_TRUE(claim(3, MemoryRank::kWarm, 0).taken);
  const MemoryRoom::Answer answer =
      room_.claim({keyOf(4), 2 * kFile, MemoryRank::kMemory, second(1000)}, staying_);
  EXPECT_FALSE(answer.taken);
  EXPECT_THAT(answer.victims, IsEmpty());
}

TEST_F(MemoryRoomTest, PassesOverFilesThatCannotGo) {
  for (std::uint8_t key = 1; key <= 3; ++key) fill(key, MemoryRank::kUse, 100 * int(key));
  staying_.insert(keyOf(1));
  EXPECT_THAT(claim(4, MemoryRank::kWarm, 0).victims, ElementsAre(keyOf(2)));
}

TEST_F(MemoryRoomTest, AnAgentWithLessMemoryThanBeforeNamesTheExcess) {
  for (std::uint8_t key = 1; key <= 4; ++key) {
    room_.adopt(keyOf(key), kFile, 0, MemoryRank::kUse);
    room_.noteUse(keyOf(key), second(1000 - int(key)));
  }
  EXPECT_THAT(room_.excess(), ElementsAre(keyOf(4)));
}

}  // namespace
}  // namespace hearth
