#include "fetch/rate_limiter.h"

#include <gtest/gtest.h>

#include <thread>

#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

Task<double> spend(Reactor& reactor, RateLimiter& limiter, int times, std::uint64_t bytes) {
  const auto start = Clock::now();
  Urgency urgency(Priority::kBackground);
  for (int i = 0; i < times; ++i) {
    [[maybe_unused]] const bool spent = co_await limiter.spend(reactor, bytes, urgency);
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

TEST_F(RateLimiterTest, NobodyWaitsWithoutALimit) {
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

Task<bool> spendOnce(Reactor& reactor, RateLimiter& limiter, Urgency& urgency) {
  co_return co_await limiter.spend(reactor, 1'000'000, urgency);
}

TEST_F(RateLimiterTest, ARaiseEndsTheWait) {
  RateLimiter limiter(1000);
  limiter.charge(1'000'000);  // a quarter of an hour
  struct Join {
    static Task<bool> run(Reactor& reactor, RateLimiter& limited) {
      Urgency urgency(Priority::kBackground);
      bool spent = true;
      Gate gate(reactor);
      gate.spawn(wait(reactor, limited, urgency, spent));
      co_await reactor.sleep(1ms);
      urgency.raise();
      co_await gate.close();
      co_return spent;
    }
    static Task<void> wait(Reactor& reactor, RateLimiter& limited, Urgency& urgency, bool& spent) {
      spent = co_await spendOnce(reactor, limited, urgency);
    }
  };
  EXPECT_FALSE(reactor->runUntilComplete(Join::run(*reactor, limiter)));
}

// Later work waits for the bytes, though the reader did not.
TEST_F(RateLimiterTest, OwesTheBytesThatAReaderUses) {
  RateLimiter limiter(1000);
  {
    RateAllowance ofReader(&limiter);
    EXPECT_FALSE(ofReader.given());
    ofReader.use(1'000'000);
    ofReader.use(1'000'000);  // all that it is for, once
  }
  EXPECT_GT(limiter.owed(), 900s);
  EXPECT_LT(limiter.owed(), 1100s);
}

}  // namespace
}  // namespace hearth
