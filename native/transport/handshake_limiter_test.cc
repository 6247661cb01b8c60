#include "transport/handshake_limiter.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

struct HandshakeLimiterTest : testing::Test {
  HandshakeLimiter limiter{4, 3};
  std::vector<int> ended;
  std::shared_ptr<HandshakeLimiter::Slot> enter(const std::string& source, int name) {
    return limiter.enter(source, now, [this, name] { ended.push_back(name); });
  }
  HandshakeLimiter::TimePoint now{};
};

TEST_F(HandshakeLimiterTest, RevokesTheOldestSlotOfASource) {
  const auto a = enter("mob", 1), b = enter("mob", 2), c = enter("mob", 3);
  EXPECT_NE(enter("mob", 4), nullptr);
  EXPECT_EQ(ended, (std::vector{1}));
  EXPECT_NE(enter("mob", 5), nullptr) << "the fourth has gone by itself";
  EXPECT_EQ(ended, (std::vector{1}));
  EXPECT_EQ(limiter.taken(), 2u);
}

TEST_F(HandshakeLimiterTest, TheSourceWithMostSlotsMakesRoom) {
  const auto a = enter("honest", 1), b = enter("mob", 2), c = enter("mob", 3), d = enter("mob", 4);
  const auto e = enter("other", 5), f = enter("another", 6);
  EXPECT_EQ(ended, (std::vector{2, 3}));
  EXPECT_EQ(limiter.taken(), 4u);
}

TEST_F(HandshakeLimiterTest, RevokesTheOldestAmongEqualSources) {
  const auto z = enter("z", 1), a = enter("a", 2), y = enter("y", 3), b = enter("b", 4);
  const auto c = enter("c", 5), d = enter("d", 6);
  EXPECT_EQ(ended, (std::vector{1, 2}));
}

TEST_F(HandshakeLimiterTest, FailedProofsSlowTheirSourceAndKeepNoOtherOut) {
  for (const char* const source : {"mob", "gang", "crowd"}) {
    for (int i = 0; i < 3; ++i) enter(source, i)->fail(now);
    EXPECT_EQ(enter(source, 9), nullptr);
  }
  EXPECT_EQ(limiter.taken(), 0u);
  EXPECT_NE(enter("honest", 1), nullptr);
  now += HandshakeLimiter::kPenalty - std::chrono::milliseconds(1);
  EXPECT_EQ(enter("mob", 2), nullptr);
  now += std::chrono::milliseconds(1);
  EXPECT_NE(enter("mob", 3), nullptr);
  EXPECT_TRUE(ended.empty());
}

TEST_F(HandshakeLimiterTest, FailuresCountWithTheConnectionsThatWait) {
  enter("mob", 1)->fail(now);
  const auto b = enter("mob", 2), c = enter("mob", 3);
  const auto d = enter("mob", 4);
  EXPECT_EQ(ended, (std::vector{2}));
  b->fail(now);
  EXPECT_EQ(limiter.taken(), 2u) << "it had none any more";
}

TEST_F(HandshakeLimiterTest, FailuresAreBounded) {
  for (std::size_t i = 0; i <= HandshakeLimiter::kFailures; ++i)
    enter("mob" + std::to_string(i / 3), 1)->fail(now);
  EXPECT_NE(enter("mob0", 1), nullptr) << "forgotten";
  EXPECT_EQ(enter("mob1", 1), nullptr);
}

TEST_F(HandshakeLimiterTest, PlacesAreGivenBackOnce) {
  auto a = enter("mob", 1), b = enter("mob", 2), c = enter("mob", 3);
  const auto d = enter("mob", 4);
  a.reset();
  EXPECT_EQ(limiter.taken(), 3u);
  b.reset();
  c.reset();
  EXPECT_EQ(limiter.taken(), 1u);
}

}  // namespace
}  // namespace hearth
