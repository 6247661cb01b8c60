#include "fetch/token_bucket.h"

#include <gtest/gtest.h>

#include <limits>

namespace hearth {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kNow = Clock::time_point(1h);

TEST(TokenBucket, HoldsItsRateAfterTheBurst) {
  TokenBucket bucket(1000);
  bucket.spend(250, kNow);  // the burst
  EXPECT_EQ(bucket.wait(kNow), 0s);
  bucket.spend(2000, kNow);
  EXPECT_EQ(bucket.wait(kNow), 2s);
  EXPECT_EQ(bucket.wait(kNow + 2s), 0s);
  bucket.spend(1000, kNow + 2s);
  bucket.giveBack(1000);
  EXPECT_EQ(bucket.wait(kNow + 2s), 0s);
}

TEST(TokenBucket, OwesAnOldDebtAtTheNewRate) {
  TokenBucket bucket(1000);
  bucket.spend(10'250, kNow);
  bucket.setRate(5000, kNow);
  EXPECT_EQ(bucket.wait(kNow), 2s);
  bucket.setRate(0, kNow);
  EXPECT_EQ(bucket.wait(kNow), 0s);
}

TEST(TokenBucket, NoRateAndNoSizeOverflows) {
  TokenBucket slow(1);
  for (int i = 0; i < 3; ++i) slow.spend(std::numeric_limits<std::uint64_t>::max(), kNow);
  EXPECT_EQ(slow.wait(kNow), TokenBucket::kMaxDebt);
  slow.setRate(1'000'000'000'000, kNow);
  EXPECT_LT(slow.wait(kNow), 1min);
  TokenBucket fast(1'000'000'000'000);
  fast.spend(250'000'000'000, kNow);
  EXPECT_EQ(fast.wait(kNow), 0s);
  fast.spend(64 << 10, kNow);
  EXPECT_EQ(fast.wait(kNow), 66ns);  // rounded up
  TokenBucket fastest(std::numeric_limits<std::uint64_t>::max());
  fastest.spend(std::numeric_limits<std::uint64_t>::max(), kNow);
  EXPECT_LE(fastest.wait(kNow), 1s);
}

}  // namespace
}  // namespace hearth
