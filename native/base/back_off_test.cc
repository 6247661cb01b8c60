#include "base/back_off.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

TEST(DoublingPause, GrowsToItsLongestAndBeginsAgain) {
  DoublingPause pauses(100ms, 1s);
  for (const Clock::duration whole : {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms}) {
    const Clock::duration pause = pauses.next();
    EXPECT_GE(pause, whole / 2);
    EXPECT_LE(pause, whole);
  }
  pauses.reset();
  EXPECT_LE(pauses.next(), 100ms);
}

TEST(DoublingPause, SpreadsOverTheUpperHalf) {
  Clock::duration least = Clock::duration::max(), greatest{};
  for (int i = 0; i < 1000; ++i) {
    const Clock::duration pause = jittered(1s);
    least = std::min(least, pause);
    greatest = std::max(greatest, pause);
  }
  EXPECT_LT(least, 550ms);
  EXPECT_GT(greatest, 950ms);
}

}  // namespace
}  // namespace hearth
