#include "engine/rate_limiter.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

using namespace std::chrono_literals;

Task<double> spend(Reactor& reactor, RateLimiter& limiter, int times, std::uint64_t bytes) {
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) {
    Task<void> spending = limiter.spend(reactor, bytes);
    co_await spending;
  }
  co_return std::chrono::duration<double>(Clock::now() - start).count();
}

struct RateLimiterTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
};

TEST_F(RateLimiterTest, HoldsTheRateOverTime) {
  RateLimiter limiter(1'000'000);
  // 0.25 s of burst are free; the last request passes when all before it are paid.
  const double seconds = reactor->runUntilComplete(spend(*reactor, limiter, 8, 100'000));
  EXPECT_GT(seconds, 0.40);
}

TEST_F(RateLimiterTest, WithoutALimitNobodyWaits) {
  RateLimiter limiter(0);
  EXPECT_LT(reactor->runUntilComplete(spend(*reactor, limiter, 1000, 1'000'000'000)), 60.0);
}

TEST_F(RateLimiterTest, CancellingEndsEveryWait) {
  RateLimiter limiter(1000);
  std::thread canceller([&] {
    std::this_thread::sleep_for(50ms);
    limiter.cancel();
  });
  EXPECT_LT(reactor->runUntilComplete(spend(*reactor, limiter, 3, 1'000'000)), 60.0);
  canceller.join();
}

}  // namespace
}  // namespace hearth
