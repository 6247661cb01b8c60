#include "origin/fair_permits.h"

#include <gtest/gtest.h>

#include "reactor/synchronization.h"

namespace hearth {
namespace {

class FairPermitsTest : public testing::Test {
 protected:
  static Task<void> take(FairPermits& permits, const std::string& owner, int& taken) {
    co_await permits.acquire(owner);
    ++taken;
  }
  static Task<void> nextTurns(Reactor& reactor) {
    for (int i = 0; i < 3; ++i) co_await reactor.sleep({});
  }
  void settle() { reactor_->runUntilComplete(nextTurns(*reactor_)); }

  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::create(Reactor::Backend::kEpoll));
  Gate gate_{*reactor_};
  const std::string owner_ = "a";
};

TEST_F(FairPermitsTest, BecomeMoreAndFewer) {
  FairPermits permits(*reactor_, 2);
  int taken = 0;
  for (int i = 0; i < 5; ++i) gate_.spawn(take(permits, owner_, taken));
  settle();
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(permits.full());
  permits.resize(4);
  settle();
  EXPECT_EQ(taken, 4) << "those who wait get them at once";
  permits.resize(1);
  for (int i = 0; i < 3; ++i) permits.release(owner_);
  settle();
  EXPECT_EQ(taken, 4) << "one is held";
  EXPECT_TRUE(permits.full());
  permits.release(owner_);
  settle();
  EXPECT_EQ(taken, 5);
  permits.release(owner_);
  EXPECT_FALSE(permits.full());
}

}  // namespace
}  // namespace hearth
