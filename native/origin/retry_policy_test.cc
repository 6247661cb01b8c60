#include "origin/retry_policy.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

TEST(RetryPolicy, GrowsToItsLimitWithFullJitter) {
  RetryPolicy policy(100ms, 1s, 1);
  for (int failures = 1; failures < 80; ++failures) {
    const Clock::duration limit =
        std::min<Clock::duration>(1s, 100ms * (1 << std::min(failures - 1, 10)));
    Clock::duration least = Clock::duration::max();
    Clock::duration most{0};
    for (int i = 0; i < 100; ++i) {
      const auto delay = policy.delay(failures, std::nullopt);
      EXPECT_LE(delay, limit);
      least = std::min(least, delay);
      most = std::max(most, delay);
    }
    EXPECT_LT(least, limit / 4);
    EXPECT_GT(most, limit * 3 / 4);
  }
}

TEST(RetryPolicy, WaitsAtLeastAsLongAsAsked) {
  RetryPolicy policy(100ms, 1s, 1);
  for (int i = 0; i < 100; ++i) {
    const auto delay = policy.delay(1, 5s);
    EXPECT_GE(delay, 5s);
    EXPECT_LE(delay, 5100ms);
  }
}

TEST(RetryPolicy, ReadsRetryAfter) {
  const auto now =
      std::chrono::system_clock::from_time_t(1'000'000'000);  // 9 Sep 2001 01:46:40 GMT
  EXPECT_EQ(RetryPolicy::parseRetryAfter("7", now), 7s);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("86400", now), 60s);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("99999999999999999999999", now), 60s);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("Sun, 09 Sep 2001 01:46:50 GMT", now), 10s);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("Sun, 09 Sep 2001 01:00:00 GMT", now), 0s);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("", now), std::nullopt);
  EXPECT_EQ(RetryPolicy::parseRetryAfter("soon", now), std::nullopt);
}

}  // namespace
}  // namespace hearth
