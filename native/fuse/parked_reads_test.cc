#include "fuse/parked_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;

const ParkedReads::Ask nothing = [] {};

TEST(ParkedReads, AreAnsweredOnce) {
  ParkedReads reads(10);
  EXPECT_EQ(reads.park(2, nothing), ParkedReads::Parked::kAsk);
  EXPECT_TRUE(reads.interrupt(2));
  reads.answered();
  EXPECT_FALSE(reads.take(2));
  EXPECT_EQ(reads.park(4, nothing), ParkedReads::Parked::kAsk);
  EXPECT_TRUE(reads.take(4));
  reads.answered();
  EXPECT_FALSE(reads.take(4));
  EXPECT_FALSE(reads.interrupt(4));
}

TEST(ParkedReads, ASignalMayComeFirst) {
  ParkedReads reads(10);
  EXPECT_FALSE(reads.interrupt(6));
  EXPECT_EQ(reads.park(6, nothing), ParkedReads::Parked::kInterrupted);
  EXPECT_EQ(reads.size(), 0U);
}

TEST(ParkedReads, CloseWaitsForThem) {
  ParkedReads reads(10);
  ASSERT_EQ(reads.park(2, nothing), ParkedReads::Parked::kAsk);
  std::thread answer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(reads.take(2));
    reads.answered();
  });
  const auto left = reads.close(kHang);
  answer.join();
  EXPECT_TRUE(left.empty());
}

TEST(ParkedReads, CloseGivesBackWhatIsNotAnsweredInTime) {
  ParkedReads reads(10);
  ASSERT_EQ(reads.park(4, nothing), ParkedReads::Parked::kAsk);
  EXPECT_EQ(reads.close(milliseconds(20)), std::vector<std::uint64_t>{4});
  EXPECT_FALSE(reads.take(4));
  EXPECT_EQ(reads.park(8, nothing), ParkedReads::Parked::kClosed);
}

TEST(ParkedReads, WaitForRoomAndCanBeInterruptedThere) {
  ParkedReads reads(1);
  std::vector<int> asked;
  const auto ask = [&](int unique) { return [&asked, unique] { asked.push_back(unique); }; };
  ASSERT_EQ(reads.park(2, ask(2)), ParkedReads::Parked::kAsk);
  for (const int unique : {4, 6, 8}) {
    ASSERT_EQ(reads.park(static_cast<std::uint64_t>(unique), ask(unique)),
              ParkedReads::Parked::kQueued);
  }
  reads.askQueued();
  EXPECT_TRUE(asked.empty()) << "no room yet";
  EXPECT_TRUE(reads.interrupt(4));
  reads.answered();
  EXPECT_TRUE(reads.take(2));
  reads.answered();
  reads.askQueued();
  EXPECT_EQ(asked, std::vector<int>{6});
  EXPECT_EQ(reads.close(milliseconds(0)).size(), 2U);
  EXPECT_FALSE(reads.take(6));
  reads.askQueued();
  EXPECT_EQ(asked, std::vector<int>{6}) << "of what was closed the source is not asked";
}

TEST(ParkedReads, AnswersThatComeAtOnceDoNotStackUp) {
  ParkedReads reads(1);
  int depth = 0;
  int deepest = 0;
  int answered = 0;
  ASSERT_EQ(reads.park(1, nothing), ParkedReads::Parked::kAsk);
  for (std::uint64_t unique = 2; unique <= 10; ++unique) {
    ASSERT_EQ(reads.park(unique,
                         [&, unique] {
                           deepest = std::max(deepest, ++depth);
                           if (reads.take(unique)) reads.answered();
                           ++answered;
                           reads.askQueued();
                           --depth;
                         }),
              ParkedReads::Parked::kQueued);
  }
  EXPECT_TRUE(reads.take(1));
  reads.answered();
  reads.askQueued();
  EXPECT_EQ(answered, 9);
  EXPECT_EQ(deepest, 1);
}

TEST(ParkedReads, AreNotQueuedWithoutEnd) {
  ParkedReads reads(1);
  ASSERT_EQ(reads.park(1, nothing), ParkedReads::Parked::kAsk);
  for (std::uint64_t unique = 2; unique < 2 + ParkedReads::kQueuedPerAsked; ++unique) {
    ASSERT_EQ(reads.park(unique, nothing), ParkedReads::Parked::kQueued);
  }
  EXPECT_EQ(reads.park(100, nothing), ParkedReads::Parked::kTooMany);
  EXPECT_TRUE(reads.interrupt(2));
  reads.answered();
  EXPECT_EQ(reads.park(100, nothing), ParkedReads::Parked::kQueued);
}

TEST(ParkedReads, WhatASignalEndedCountsUntilTheSourceHasAnswered) {
  ParkedReads reads(1);
  ASSERT_EQ(reads.park(2, nothing), ParkedReads::Parked::kAsk);
  EXPECT_TRUE(reads.interrupt(2));
  reads.answered();
  EXPECT_EQ(reads.size(), 0U);
  EXPECT_TRUE(reads.full());
  EXPECT_FALSE(reads.take(2));
  EXPECT_FALSE(reads.full());
}

}  // namespace
}  // namespace hearth
