#include "transport/send_pace.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using std::chrono::seconds;

struct SendPaceTest : testing::Test {
  // After five more seconds, in which so many bytes were taken.
  bool isTooSlow(std::uint64_t taken, bool waiting = true) {
    now += seconds(5);
    acknowledged += taken;
    return pace.isTooSlow(now, acknowledged, waiting);
  }
  SendPace pace{1000, seconds(10)};
  Clock::time_point now;
  std::uint64_t acknowledged = 0;
};

TEST_F(SendPaceTest, JudgesAReaderForWhichBytesWaitAllTheTime) {
  EXPECT_FALSE(isTooSlow(0)) << "waits since now";
  EXPECT_FALSE(isTooSlow(4000)) << "for less than the window";
  EXPECT_TRUE(isTooSlow(4000));
}

TEST_F(SendPaceTest, TakesEachWindowByItself) {
  EXPECT_FALSE(isTooSlow(0));
  EXPECT_FALSE(isTooSlow(1'000'000));
  EXPECT_FALSE(isTooSlow(0)) << "a fast beginning";
  EXPECT_FALSE(isTooSlow(0));
  EXPECT_TRUE(isTooSlow(0)) << "does not pay for what follows";
}

TEST_F(SendPaceTest, LetsReadersBeThatTakeAllTheyAreSent) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(isTooSlow(1, false));
  EXPECT_FALSE(isTooSlow(1));
  EXPECT_FALSE(isTooSlow(1));
  EXPECT_FALSE(isTooSlow(1, false)) << "it had to wait for us";
  EXPECT_FALSE(isTooSlow(1));
  EXPECT_FALSE(isTooSlow(1));
  EXPECT_TRUE(isTooSlow(1));
}

TEST_F(SendPaceTest, LetsReadersBeThatAreFastEnough) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(isTooSlow(5000));
}

}  // namespace
}  // namespace hearth
