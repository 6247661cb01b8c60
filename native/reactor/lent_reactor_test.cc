#include "reactor/lent_reactor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kForEver = Clock::time_point::max();

class LentReactorTest : public testing::Test {
 protected:
  LentReactorTest() {
    lent = std::move(*LentReactor::create());
    own = std::thread([this] { lent->run([this] { return idle.load(); }); });
  }
  ~LentReactorTest() override {
    lent->stop();
    own.join();
  }
  // Something is to be done, and done, for the thread to look up.
  void awaitLent() {
    EXPECT_TRUE(eventually([this] {
      lent->ask();
      lent->reactor().post([] {});
      return lent->isLent();
    }));
  }
  std::thread::id runsOn() {
    std::atomic<bool> ran = false;
    std::thread::id id;
    lent->reactor().post([&] {
      id = std::this_thread::get_id();
      ran = true;
    });
    EXPECT_TRUE(eventually([&] { return ran.load(); }));
    return id;
  }

  std::atomic<bool> idle = true;
  std::unique_ptr<LentReactor> lent;
  std::thread own;
};

TEST_F(LentReactorTest, IsNotToBeHadUnasked) {
  EXPECT_FALSE(lent->borrow(kForEver, [] { return true; }));
  EXPECT_EQ(runsOn(), own.get_id());
}

TEST_F(LentReactorTest, RunsWhatWasPostedOnTheThreadOfTheBorrower) {
  awaitLent();
  std::thread::id ranOn;
  lent->reactor().post([&] { ranOn = std::this_thread::get_id(); });
  // The own thread may look, and take it back, first.
  while (!lent->borrow(kForEver, [&] { return ranOn != std::thread::id(); })) awaitLent();
  EXPECT_TRUE(ranOn == std::this_thread::get_id() || ranOn == own.get_id());
}

TEST_F(LentReactorTest, StaysWithItsThreadWhileSomethingIsUnderWay) {
  idle = false;
  lent->ask();
  EXPECT_EQ(runsOn(), own.get_id());
  EXPECT_FALSE(lent->isLent());
}

TEST_F(LentReactorTest, GoesBackFromABorrowerWhoWaits) {
  awaitLent();
  std::atomic<bool> inside = false;
  std::thread borrower([&] {
    while (!lent->borrow(kForEver, [&] { return inside = true, false; })) awaitLent();
  });
  EXPECT_TRUE(eventually([&] { return inside.load(); }));
  lent->takeBack();
  borrower.join();
  EXPECT_EQ(runsOn(), own.get_id());
}

TEST_F(LentReactorTest, GoesBackWhenNobodyBorrowsAnyMore) {
  awaitLent();
  EXPECT_EQ(runsOn(), own.get_id());
}

Task<void> receive(Reactor& reactor, int fd, std::atomic<int>& came) {
  std::array<std::byte, 1> byte{};
  came = co_await reactor.receive(fd, byte);
}

TEST_F(LentReactorTest, ABorrowerGoesOnWithWhatTheOwnThreadBegan) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  std::atomic<int> came = 0;
  lent->reactor().post([&] { spawn(receive(lent->reactor(), pair[0], came)); });
  runsOn();
  awaitLent();
  EXPECT_EQ(write(pair[1], "x", 1), 1);
  while (came == 0) lent->borrow(Clock::now() + 10ms, [&] { return came != 0; });
  EXPECT_EQ(came, 1);
  close(pair[0]);
  close(pair[1]);
}

// The own thread, which may take the reactor back meanwhile, does not look.
TEST_F(LentReactorTest, OnlyABorrowerWhoWaitsLooks) {
  runsOn();
  EXPECT_EQ(lent->reactor().idleCounts().looks, 0u);
  while (lent->reactor().idleCounts().looks == 0) {
    awaitLent();
    lent->borrow(Clock::now() + 1ms, [] { return false; });
  }
  EXPECT_EQ(lent->reactor().idleCounts().inVain, 1u);
}

TEST_F(LentReactorTest, EndsWithABorrowerInside) {
  awaitLent();
  std::atomic<bool> inside = false;
  std::thread borrower([&] {
    while (!lent->borrow(kForEver, [&] { return inside = true, false; })) awaitLent();
  });
  EXPECT_TRUE(eventually([&] { return inside.load(); }));
  lent->stop();
  borrower.join();
}

// Many who ask, borrow, post and take back: everything that was posted runs once.
TEST_F(LentReactorTest, LosesNothingBetweenManyThreads) {
  constexpr int kThreads = 4, kPosts = 2000;
  std::atomic<int> ran = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kPosts; ++i) {
        std::atomic<bool> mine = false;
        lent->reactor().post([&] {
          ++ran;
          mine = true;
        });
        if (i % 7 == thread) lent->takeBack();
        while (!mine) {
          lent->ask();
          lent->borrow(Clock::now() + 1ms, [&] { return mine.load(); });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * kPosts);
}

}  // namespace
}  // namespace hearth
