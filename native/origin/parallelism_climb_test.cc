#include "origin/parallelism_climb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace hearth {
namespace {

using namespace std::chrono_literals;

// A host whose goodput depends on how many requests it is asked at a time.
struct ModelledHost {
  std::function<double(double parallelism)> goodput;  // bytes a second
  ParallelismClimb climb;
  Clock::time_point now{};
  double came = 0;

  ModelledHost(std::size_t limit, std::function<double(double)> model)
      : goodput(std::move(model)), climb(limit) {
    climb.saturated(true, now);
  }
  void runFor(Clock::duration time) {
    for (const auto until = now + time; now < until;) {
      constexpr Clock::duration kTick = 10ms;
      now += kTick;
      const auto bytes = goodput(static_cast<double>(climb.parallelism())) *
                         std::chrono::duration<double>(kTick).count();
      came += bytes;
      climb.came(static_cast<std::uint64_t>(bytes), now);
    }
  }
};

constexpr double kOne = 50e6;  // bytes a second of one connection

std::function<double(double)> pipeOf(double connections) {
  return [connections](double parallelism) { return kOne * std::min(parallelism, connections); };
}

TEST(ParallelismClimbTest, StartsWithTheLimitAndKeepsItWhereEachConnectionCounts) {
  ModelledHost host(16, pipeOf(1000));
  EXPECT_EQ(host.climb.parallelism(), 16u);
  host.runFor(4s);
  EXPECT_EQ(host.climb.parallelism(), 16u);
  const double before = host.came;
  host.runFor(116s);
  EXPECT_GE((host.came - before) / (116 * 16 * kOne), 0.99) << "what trying fewer costs";
  EXPECT_EQ(ParallelismClimb(1).parallelism(), 1u);
}

TEST(ParallelismClimbTest, TakesBackWhatBringsNothing) {
  ModelledHost host(64, pipeOf(16));
  host.runFor(60s);
  EXPECT_LE(host.climb.parallelism(), 20u);
  const double before = host.came;
  host.runFor(60s);
  EXPECT_GE((host.came - before) / (60 * 16 * kOne), 0.97);
}

TEST(ParallelismClimbTest, FindsTheFewestThatFillThePipe) {
  for (const double connections : {3.0, 6.0, 12.0, 25.0}) {
    ModelledHost host(64, pipeOf(connections));
    host.runFor(120s);
    // A probe may be under way.
    EXPECT_GE(static_cast<double>(host.climb.parallelism()), connections * 0.75) << connections;
    EXPECT_LE(static_cast<double>(host.climb.parallelism()), connections * 1.25 + 1) << connections;
  }
}

TEST(ParallelismClimbTest, GoesBackWhereMoreIsLess) {
  ModelledHost host(32, [](double parallelism) {
    return kOne * std::min(parallelism, 8.0) * (parallelism > 8 ? 0.5 : 1);
  });
  host.runFor(60s);
  EXPECT_LE(host.climb.parallelism(), 10u);
  EXPECT_GE(host.climb.parallelism(), 6u);
}

TEST(ParallelismClimbTest, FollowsAHostThatBecomesFaster) {
  ModelledHost host(32, pipeOf(4));
  host.runFor(60s);
  EXPECT_LE(host.climb.parallelism(), 6u);
  host.goodput = pipeOf(32);
  host.runFor(180s);
  EXPECT_GE(host.climb.parallelism(), 24u);
}

TEST(ParallelismClimbTest, LosesLittleWhenGoodputVaries) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(1, 0.3);  // of 10 ms; 6 % of a window
    double came = 0;
    double best = 0;
    ModelledHost host(16, [&](double parallelism) {
      const double factor = std::max(0.0, noise(random));
      came += kOne * std::min(parallelism, 12.0) * factor;
      best += kOne * 12.0 * factor;
      return kOne * std::min(parallelism, 12.0) * factor;
    });
    host.runFor(120s);
    EXPECT_GE(came / best, 0.9) << seed;
  }
}

TEST(ParallelismClimbTest, SaysNothingWhileSomeAreFree) {
  ModelledHost host(64, pipeOf(1000));
  host.climb.saturated(false, host.now);
  host.runFor(60s);
  EXPECT_EQ(host.climb.parallelism(), 64u);
}

TEST(ParallelismClimbTest, TakesNoNoticeOfMomentsBetweenRequests) {
  ModelledHost host(16, pipeOf(8));
  for (int i = 0; i < 600; ++i) {
    host.runFor(100ms);
    host.climb.saturated(false, host.now);
    host.now += 5ms;
    host.climb.saturated(true, host.now);
  }
  EXPECT_LE(host.climb.parallelism(), 10u);
}

TEST(ParallelismClimbTest, HalvesOnceARoundAndComesBack) {
  ModelledHost host(8, pipeOf(8));
  const auto began = host.now;
  host.now += 1ms;
  host.climb.throttled(began, host.now);
  EXPECT_EQ(host.climb.parallelism(), 4u);
  host.climb.throttled(began, host.now + 100ms);
  EXPECT_EQ(host.climb.parallelism(), 4u) << "requests of the same round";
  host.climb.throttled(host.now, host.now + 1ms);
  EXPECT_EQ(host.climb.parallelism(), 2u);
  host.climb.throttled(host.now + 1ms, host.now + 2ms);
  EXPECT_EQ(host.climb.parallelism(), 2u) << "the floor";
  host.runFor(1010ms);
  EXPECT_EQ(host.climb.parallelism(), 3u);
  host.runFor(5s);
  EXPECT_EQ(host.climb.parallelism(), 8u);
}

TEST(ParallelismClimbTest, ComesBackWithoutBeingSaturated) {
  ModelledHost host(8, pipeOf(8));
  host.climb.throttled(host.now, host.now);
  host.climb.saturated(false, host.now);
  host.runFor(10s);
  EXPECT_EQ(host.climb.parallelism(), 8u);
}

TEST(ParallelismClimbTest, StaysBelowWhereAHostThrottles) {
  ModelledHost host(64, pipeOf(1000));
  std::size_t above = 0;
  for (int i = 0; i < 1200; ++i) {
    host.runFor(100ms);
    if (host.climb.parallelism() > 20) host.climb.throttled(host.now, host.now);
    above += i > 10 && host.climb.parallelism() > 21 ? 1 : 0;
  }
  EXPECT_EQ(above, 0u);
  EXPECT_GE(host.climb.parallelism(), 8u);
}

}  // namespace
}  // namespace hearth
