// A reactor must not sleep over what was posted: neither between its look at the queue and its
// sleep, nor in its sleep. The posts come at exactly those points here.
#include <gtest/gtest.h>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

// Knows no input or output, and notes a sleep instead of sleeping.
class SleeplessReactor final : public Reactor {
 public:
  // Runs within the next sleep, as another thread would.
  std::function<void()> inSleep;
  // Runs within the next look.
  std::function<void()> inLook;
  int sleeps = 0, wakes = 0, tries = 0;

  [[nodiscard]] const char* backendName() const override { return "sleepless"; }
  void cancel(Operation& /*operation*/) override {}

 protected:
  void submit(Operation& /*operation*/) override {}
  bool arrived() override {
    ++tries;
    // The first try comes before the look.
    if (tries > 1)
      if (const auto run = std::exchange(inLook, nullptr)) run();
    return false;
  }
  void wait(Clock::time_point deadline) override {
    if (deadline <= Clock::now()) return;
    ++sleeps;
    if (const auto run = std::exchange(inSleep, nullptr)) run();
  }
  void wake() override { ++wakes; }
};

// Timers fire after the look at what was posted.
Task<bool> postAfterTheLook(SleeplessReactor& reactor) {
  co_await reactor.sleep(Clock::duration::zero());
  reactor.sleeps = 0;
  Event came(reactor);
  reactor.post([&came] { came.set(); });
  co_await came.wait();
  co_return reactor.sleeps == 0;
}

TEST(ReactorWakeUp, WhatIsPostedAfterTheLookIsNotSleptOver) {
  SleeplessReactor reactor;
  EXPECT_TRUE(reactor.runUntilComplete(postAfterTheLook(reactor)));
}

Task<bool> postInSleep(SleeplessReactor& reactor) {
  Event came(reactor);
  reactor.inSleep = [&reactor, &came] {
    reactor.post([] {});
    reactor.post([&came] { came.set(); });
  };
  co_await came.wait();
  co_return true;
}

TEST(ReactorWakeUp, WhatIsPostedInItsSleepWakesItOnce) {
  SleeplessReactor reactor;
  EXPECT_TRUE(reactor.runUntilComplete(postInSleep(reactor)));
  EXPECT_EQ(reactor.wakes, 1);
}

Task<void> sleepOften(SleeplessReactor& reactor) {
  for (int i = 0; i < 10; ++i) co_await reactor.sleep(std::chrono::microseconds(100));
}

TEST(ReactorLook, SleepsAtOnceWhereNothingIsExpected) {
  SleeplessReactor reactor;
  reactor.runUntilComplete(sleepOften(reactor));
  EXPECT_GE(reactor.sleeps, 10);
  EXPECT_EQ(reactor.tries, 0);
  EXPECT_EQ(reactor.idleCounts().looks, 0u);
}

TEST(ReactorLook, LooksOnceForWhatIsExpectedAndThenSleeps) {
  SleeplessReactor reactor;
  reactor.expectSoon();
  reactor.runUntilComplete(sleepOften(reactor));
  EXPECT_GE(reactor.sleeps, 9);
  EXPECT_EQ(reactor.idleCounts().looks, 1u);
  EXPECT_EQ(reactor.idleCounts().inVain, 1u);
  EXPECT_GE(reactor.idleCounts().sleeps, 9u);
}

Task<void> postInLook(SleeplessReactor& reactor) {
  Event came(reactor);
  reactor.inLook = [&reactor, &came] { reactor.post([&came] { came.set(); }); };
  reactor.expectSoon();
  co_await came.wait();
}

// Where another thread has the core, a look ends before the post; then a sleep would last for ever.
TEST(ReactorLook, WhatIsPostedInALookWakesNobody) {
  SleeplessReactor reactor;
  reactor.inSleep = [&reactor] {
    if (const auto post = std::exchange(reactor.inLook, nullptr)) post();
  };
  reactor.runUntilComplete(postInLook(reactor));
  const IdleLook::Counts counts = reactor.idleCounts();
  EXPECT_EQ(counts.looks, 1u);
  EXPECT_LE(reactor.wakes, static_cast<int>(counts.inVain));
}

}  // namespace
}  // namespace hearth
