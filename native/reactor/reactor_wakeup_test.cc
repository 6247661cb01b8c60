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
  int sleeps = 0, wakes = 0;

  [[nodiscard]] const char* backendName() const override { return "sleepless"; }
  void cancel(Operation& /*operation*/) override {}

 protected:
  void submit(Operation& /*operation*/) override {}
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

}  // namespace
}  // namespace hearth
