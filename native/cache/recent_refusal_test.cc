#include "cache/recent_refusal.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

struct RecentRefusalTest : testing::Test {
  Clock::time_point now = Clock::now();
  RecentRefusal refusal;
};

TEST_F(RecentRefusalTest, OneCallerInAWhileTriesAgain) {
  EXPECT_TRUE(refusal.retry(now));
  refusal.refused(100, true, now);
  EXPECT_TRUE(refusal.applies(100));
  EXPECT_FALSE(refusal.retry(now + RecentRefusal::kPause - 1ms));
  EXPECT_TRUE(refusal.retry(now + RecentRefusal::kPause));
  EXPECT_FALSE(refusal.retry(now + RecentRefusal::kPause)) << "another does";
  EXPECT_TRUE(refusal.applies(100)) << "until it is known how that ended";
}

TEST_F(RecentRefusalTest, EndsWhenAsMuchWasStored) {
  refusal.refused(100, true, now);
  refusal.stored(99);
  EXPECT_TRUE(refusal.applies(100));
  refusal.stored(100);
  EXPECT_FALSE(refusal.applies(100));
}

TEST_F(RecentRefusalTest, KeepsNothingOutThatIsNoMoreThanWhatWasStoredSince) {
  refusal.refused(100, false, now);
  EXPECT_TRUE(refusal.applies(10));
  refusal.stored(10);
  EXPECT_FALSE(refusal.applies(10));
  EXPECT_TRUE(refusal.applies(11));
  refusal.refused(10, true, now);
  EXPECT_TRUE(refusal.applies(10)) << "there is no room for these either";
}

}  // namespace
}  // namespace hearth
