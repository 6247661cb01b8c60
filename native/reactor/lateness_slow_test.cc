// How late a reactor was: a matter of time, which a busy machine changes.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "reactor/reactor.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

class LatenessTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void SetUp() override {
    auto created = Reactor::create(GetParam());
    ASSERT_TRUE(created.ok()) << created.error().message;
    reactor = std::move(*created);
  }
  std::unique_ptr<Reactor> reactor;
};

Task<Clock::duration> sleepWhileBusy(Reactor& reactor, Clock::duration busy) {
  const Clock::duration before = reactor.lateness();
  reactor.post([busy] { std::this_thread::sleep_for(busy); });
  co_await reactor.sleep(busy / 10);
  co_return reactor.lateness() - before;
}

// As a completion sees it.
Task<Clock::duration> sleepIdle(Reactor& reactor, Clock::duration time) {
  const Clock::duration before = reactor.lateness();
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  std::thread other([&] {
    std::this_thread::sleep_for(time);
    EXPECT_EQ(::write(pipe[1], "x", 1), 1);
  });
  co_await reactor.poll(pipe[0], POLLIN);
  const Clock::duration late = reactor.lateness() - before;
  other.join();
  ::close(pipe[0]);
  ::close(pipe[1]);
  co_return late;
}

TEST_P(LatenessTest, KnowsHowLateItWas) {
  EXPECT_GE(reactor->runUntilComplete(sleepWhileBusy(*reactor, 1s)), 500ms);
  EXPECT_LT(reactor->runUntilComplete(sleepIdle(*reactor, 2s)), 1s) << "waiting is not late";
  // Counted once, however many timers were due.
  const auto before = Clock::now();
  const Clock::duration lateness = reactor->lateness();
  for (int i = 0; i < 5; ++i)
    static_cast<void>(reactor->runUntilComplete(sleepWhileBusy(*reactor, 20ms)));
  EXPECT_LE(reactor->lateness() - lateness, Clock::now() - before);
}

INSTANTIATE_TEST_SUITE_P(Backends, LatenessTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& test) {
                           return test.param == Reactor::Backend::kIoUring ? "IoUring" : "Epoll";
                         });

}  // namespace
}  // namespace hearth
