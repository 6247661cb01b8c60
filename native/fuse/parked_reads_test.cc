#include "fuse/parked_reads.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

using std::chrono::milliseconds;

TEST(ParkedReads, AreAnsweredOnce) {
  ParkedReads reads(10);
  EXPECT_EQ(reads.park(2), ParkedReads::Parked::kYes);
  EXPECT_TRUE(reads.interrupt(2));
  reads.answered();
  EXPECT_FALSE(reads.take(2));
  EXPECT_EQ(reads.park(4), ParkedReads::Parked::kYes);
  EXPECT_TRUE(reads.take(4));
  reads.answered();
  EXPECT_FALSE(reads.take(4));
  EXPECT_FALSE(reads.interrupt(4));
}

TEST(ParkedReads, ASignalMayComeFirst) {
  ParkedReads reads(10);
  EXPECT_FALSE(reads.interrupt(6));
  EXPECT_EQ(reads.park(6), ParkedReads::Parked::kInterrupted);
  EXPECT_EQ(reads.size(), 0U);
}

TEST(ParkedReads, CloseWaitsForThemAndGivesBackTheRest) {
  ParkedReads reads(10);
  ASSERT_EQ(reads.park(2), ParkedReads::Parked::kYes);
  ASSERT_EQ(reads.park(4), ParkedReads::Parked::kYes);
  std::thread answer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_TRUE(reads.take(2));
    reads.answered();
  });
  const auto left = reads.close(milliseconds(100));
  answer.join();
  EXPECT_EQ(left, std::vector<std::uint64_t>{4});
  EXPECT_FALSE(reads.take(4));
  EXPECT_EQ(reads.park(8), ParkedReads::Parked::kClosed);
}

TEST(ParkedReads, HoldThreadsBackWhenThereAreTooMany) {
  ParkedReads reads(1);
  reads.waitForRoom();
  ASSERT_EQ(reads.park(2), ParkedReads::Parked::kYes);
  std::thread answer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    if (reads.take(2)) reads.answered();
  });
  reads.waitForRoom();
  answer.join();
  EXPECT_EQ(reads.size(), 0U);
}

TEST(ParkedReads, WhatASignalEndedCountsUntilTheSourceHasAnswered) {
  ParkedReads reads(1);
  ASSERT_EQ(reads.park(2), ParkedReads::Parked::kYes);
  EXPECT_TRUE(reads.interrupt(2));
  reads.answered();
  EXPECT_EQ(reads.size(), 0U);
  EXPECT_TRUE(reads.full());
  EXPECT_FALSE(reads.take(2));
  EXPECT_FALSE(reads.full());
}

}  // namespace
}  // namespace hearth
