#include "fetch/bandwidth_limiter.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/testing/moved_clock.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr Priority kDemand = Priority::kDemand;
constexpr Priority kWarm = Priority::kBackground;

// Rates are so low that the time of a test earns nothing; moveClock() lets time pass.
struct BandwidthLimiterTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::vector<std::string> passed;

  // Notes `name` when it has passed.
  Task<void> pass(BandwidthLimiter& limiter, std::uint64_t bytes, Priority priority,
                  std::string name) {
    co_await limiter.pass(*reactor, bytes, priority);
    passed.push_back(std::move(name));
  }
  // Lets all waiters look once more.
  Task<void> after(Clock::duration time) {
    moveClock(time);
    for (int i = 0; i < 3; ++i) co_await reactor->sleep(100us);
  }
  void run(Task<void> task) {
    struct Wrap {
      static Task<bool> run(Task<void> inner) {
        co_await inner;
        co_return true;
      }
    };
    EXPECT_TRUE(reactor->runUntilComplete(Wrap::run(std::move(task))));
  }
};

using Names = std::vector<std::string>;

TEST_F(BandwidthLimiterTest, LimitsNothingWithoutALimit) {
  BandwidthLimiter limiter({});
  EXPECT_FALSE(limiter.limits(kDemand));
  EXPECT_FALSE(limiter.limits(kWarm));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter.tryPass(1'000'000'000'000, kDemand));
  EXPECT_EQ(limiter.use(kDemand).bytes, 0u);
  BandwidthLimiter ofWarm({.warm = 1});
  EXPECT_FALSE(ofWarm.limits(kDemand));
  EXPECT_TRUE(ofWarm.limits(kWarm));
}

TEST_F(BandwidthLimiterTest, ServesDemandBeforeEarlierWarmWork) {
  BandwidthLimiter limiter({.total = 100});
  ASSERT_TRUE(limiter.tryPass(10'000, kWarm));
  Gate gate(*reactor);
  auto steps = [&]() -> Task<void> {
    gate.spawn(pass(limiter, 1000, kWarm, "warm 1"));
    gate.spawn(pass(limiter, 1000, kWarm, "warm 2"));
    gate.spawn(pass(limiter, 1000, kDemand, "demand"));
    co_await after(90s);
    EXPECT_EQ(passed, Names());
    EXPECT_FALSE(limiter.tryPass(1, kDemand));
    co_await after(10s);
    EXPECT_EQ(passed, Names{"demand"});
    co_await after(10s);
    co_await after(10s);
    EXPECT_EQ(passed, (Names{"demand", "warm 1", "warm 2"}));
    co_await gate.close();
  };
  run(steps());
  EXPECT_EQ(limiter.use(kDemand).bytes, 1000u);
  EXPECT_EQ(limiter.use(kWarm).bytes, 12'000u);
  EXPECT_GE(limiter.use(kDemand).waited, 90s);
  EXPECT_GE(limiter.use(kWarm).waited, 220s);
  EXPECT_EQ(limiter.use(kWarm).waiting, 0u);
}

TEST_F(BandwidthLimiterTest, KeepsWarmWorkToItsPartOfTheTotal) {
  BandwidthLimiter limiter({.total = 1000, .warm = 100});
  ASSERT_TRUE(limiter.tryPass(5025, kWarm));  // with its burst, fifty seconds
  moveClock(10s);
  EXPECT_FALSE(limiter.tryPass(1, kWarm));
  EXPECT_TRUE(limiter.tryPass(10'000, kDemand));
  moveClock(30s);
  EXPECT_FALSE(limiter.tryPass(1, kWarm));
  moveClock(10s);
  EXPECT_TRUE(limiter.tryPass(1, kWarm));
}

TEST_F(BandwidthLimiterTest, ServesSomeWarmWorkWhileDemandWaits) {
  BandwidthLimiter limiter({.total = 1000});
  ASSERT_TRUE(limiter.tryPass(10'000, kDemand));
  Gate gate(*reactor);
  auto steps = [&]() -> Task<void> {
    gate.spawn(pass(limiter, 1000, kWarm, "warm"));
    for (int i = 0; i < 20; ++i) gate.spawn(pass(limiter, 1000, kDemand, "demand"));
    for (int i = 0; i < 25; ++i) co_await after(1s);
    for (int i = 0; i < 10; ++i) co_await after(1s);
    co_await gate.close();
  };
  run(steps());
  ASSERT_EQ(passed.size(), 21u);
  EXPECT_EQ(passed[BandwidthLimiter::kDemandPerWarm], "warm");
}

TEST_F(BandwidthLimiterTest, MovesARaisedRequestToDemand) {
  BandwidthLimiter limiter({.total = 1000, .warm = 1});
  ASSERT_TRUE(limiter.tryPass(1000, kWarm));
  auto steps = [&]() -> Task<void> {
    Gate gate(*reactor);
    Urgency urgency(kWarm);
    BandwidthAllowance allowance(limiter);
    auto earn = [&]() -> Task<void> {
      co_await allowance.earn(*reactor, 500, urgency, Clock::time_point::max());
      passed.emplace_back("raised");
    };
    gate.spawn(earn());
    co_await after(2s);
    EXPECT_EQ(passed, Names());
    urgency.raise();
    co_await after(0s);
    EXPECT_EQ(passed, Names{"raised"});
    co_await gate.close();
  };
  run(steps());
}

TEST_F(BandwidthLimiterTest, FindsATurnThatCameMeanwhileAndTakesBackUnusedBytes) {
  BandwidthLimiter limiter({.total = 100});
  ASSERT_TRUE(limiter.tryPass(2025, kDemand));
  auto steps = [&]() -> Task<void> {
    Urgency urgency(kDemand);
    BandwidthAllowance first(limiter), second(limiter);
    co_await first.earn(*reactor, 1000, urgency, Clock::now());
    EXPECT_FALSE(first.given(kDemand));
    co_await second.earn(*reactor, 1000, urgency, Clock::now());
    moveClock(20s);
    // Serves the first request, too, whose owner is away.
    co_await second.earn(*reactor, 1000, urgency, Clock::now());
    EXPECT_FALSE(second.given(kDemand));
    co_await first.earn(*reactor, 1000, urgency, Clock::now());
    EXPECT_TRUE(first.given(kDemand));
    first.use(400, kDemand);
    EXPECT_TRUE(first.given(kDemand));
    first.leave();
    EXPECT_FALSE(first.given(kDemand));
    moveClock(4s);
    co_await second.earn(*reactor, 1000, urgency, Clock::now());
    EXPECT_TRUE(second.given(kDemand));
  };
  run(steps());
  EXPECT_EQ(limiter.use(kDemand).waiting, 0u);
}

TEST_F(BandwidthLimiterTest, CancellingEndsEveryWait) {
  BandwidthLimiter limiter({.total = 1});
  ASSERT_TRUE(limiter.tryPass(1'000'000, kDemand));
  Gate gate(*reactor);
  auto steps = [&]() -> Task<void> {
    gate.spawn(pass(limiter, 1'000'000, kWarm, "warm"));
    gate.spawn(pass(limiter, 1'000'000, kDemand, "demand"));
    limiter.cancel();
    co_await gate.close();
  };
  run(steps());
  EXPECT_EQ(passed.size(), 2u);
}

// Reactors of two threads; neither has a part of its own.
TEST(BandwidthLimiterThreads, ShareOneBudget) {
  constexpr std::uint64_t kBytes = 100, kTimes = 50;
  BandwidthLimiter limiter({.total = 1000});
  ASSERT_TRUE(limiter.tryPass(250, Priority::kDemand));
  const Clock::time_point began = Clock::now();
  std::atomic<int> ended{0};
  auto spendAll = [&](Priority priority) {
    const std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
    auto spending = [&]() -> Task<bool> {
      for (std::uint64_t i = 0; i < kTimes; ++i) co_await limiter.pass(*reactor, kBytes, priority);
      co_return true;
    };
    EXPECT_TRUE(reactor->runUntilComplete(spending()));
    ended.fetch_add(1);
  };
  std::thread warm(spendAll, Priority::kBackground), demand(spendAll, Priority::kDemand);
  while (ended.load() != 2) {
    moveClock(20ms);
    std::this_thread::yield();
  }
  warm.join();
  demand.join();
  EXPECT_GE(Clock::now() - began, 9s);
  EXPECT_EQ(limiter.use(Priority::kDemand).bytes + limiter.use(Priority::kBackground).bytes,
            250 + 2 * kBytes * kTimes);
}

}  // namespace
}  // namespace hearth
