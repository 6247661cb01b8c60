#include "transport/rate_meter.h"

#include <gtest/gtest.h>

#include "transport/rail_statistics.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

TEST(RateMeterTest, MeasuresOnlyWhileSomethingIsUnderWay) {
  RateMeter meter;
  RateMeter::Time now{1h};
  EXPECT_EQ(meter.bytesPerSecond(now), 0);
  for (int at = 0; at < 4; ++at) {
    meter.started(now);
    meter.ended(now += 10ms, 10'000);
    now += 500ms;  // without work
  }
  EXPECT_NEAR(meter.bytesPerSecond(now), 1e6, 1);
}

TEST(RateMeterTest, CountsRequestsThatOverlapOnce) {
  RateMeter meter;
  RateMeter::Time now{1h};
  meter.started(now);
  meter.started(now);
  meter.ended(now += 10ms, 10'000);
  meter.ended(now += 10ms, 10'000);
  EXPECT_NEAR(meter.bytesPerSecond(now), 1e6, 1);
}

TEST(RateMeterTest, FollowsARailThatSlowsDownAndForgetsOneThatIsIdle) {
  RateMeter meter;
  RateMeter::Time now{1h};
  const auto move = [&](std::uint64_t bytes) {
    meter.started(now);
    meter.ended(now += 10ms, bytes);
  };
  move(10'000);
  for (int at = 0; at < 20; ++at) move(1'000);
  EXPECT_NEAR(meter.bytesPerSecond(now), 1e5, 1e4);
  now += 1min;
  EXPECT_EQ(meter.bytesPerSecond(now), 0);
  move(10'000);
  EXPECT_NEAR(meter.bytesPerSecond(now), 1e6, 1);
}

TEST(LatencyHistogramTest, CountsByPowersOfTwo) {
  LatencyHistogram latency;
  EXPECT_EQ(latency.below(0.5), 0u);
  for (int at = 0; at < 99; ++at) latency.record(3us);
  latency.record(1h);
  EXPECT_EQ(latency.total(), 100u);
  EXPECT_EQ(latency.below(0.5), 4u);
  EXPECT_EQ(latency.below(0.99), 4u);
  EXPECT_EQ(latency.below(1), std::uint64_t{1} << (LatencyHistogram::kBuckets - 1));
}

}  // namespace
}  // namespace hearth
