#include "directory/redundancy.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

// 20 chunks: a stripe of sixteen and one of four.
constexpr std::uint64_t kSize = 19 * kChunkBytes + 1;
const HeldChunks kWhole = {0xffff, 0xf};

bool mayGo(const HeldChunks& own, const std::vector<HeldChunks>& others) {
  return redundant(own, others, kSize);
}

TEST(Redundancy, AllChunksAreAWholeFile) {
  EXPECT_TRUE(complete(kWhole, kSize));
  EXPECT_TRUE(complete({0xffff, 0xffff}, kSize));
  EXPECT_FALSE(complete({0xffff, 0x7}, kSize));
  EXPECT_FALSE(complete({0xffff}, kSize));
  EXPECT_TRUE(complete({0xffff}, 16 * kChunkBytes));
}

TEST(Redundancy, AWholeCopyGoesForAnotherWholeOne) {
  EXPECT_TRUE(mayGo(kWhole, {kWhole}));
  EXPECT_FALSE(mayGo(kWhole, {}));
}

TEST(Redundancy, AWholeCopyDoesNotGoForPartsThatMakeAWhole) {
  EXPECT_FALSE(mayGo(kWhole, {{0xffff, 0}, {0, 0xf}}));
}

TEST(Redundancy, APartGoesWhenThereIsAWholeCopy) { EXPECT_TRUE(mayGo({0x3}, {kWhole, {0x1}})); }

TEST(Redundancy, WithoutAWholeCopyTheUnionStays) {
  EXPECT_TRUE(mayGo({0x3, 0x1}, {{0x1, 0x1}, {0x2}}));
  EXPECT_FALSE(mayGo({0x3, 0x1}, {{0x1}, {0x2}}));
  EXPECT_FALSE(mayGo({0x3}, {{0x1}}));
}

TEST(Redundancy, WhatIsNotHeldMayGo) { EXPECT_TRUE(mayGo({}, {})); }

}  // namespace
}  // namespace hearth
