#include "reactor/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "base/testing/eventually.h"
#include "base/testing/moved_clock.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

class ReactorTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void SetUp() override {
    auto created = Reactor::create(GetParam());
    ASSERT_TRUE(created.ok()) << created.error().message;
    reactor = std::move(*created);
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  }
  void TearDown() override {
    close(pair[0]);
    close(pair[1]);
  }
  std::unique_ptr<Reactor> reactor;
  int pair[2] = {-1, -1};
};

Task<int> echo(Reactor& reactor, int from, int to) {
  std::array<std::byte, 4> out{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> in{};
  const int sent = co_await reactor.send(from, out);
  EXPECT_EQ(sent, 4);
  const int received = co_await reactor.receive(to, in);
  EXPECT_EQ(in, out);
  co_return received;
}

TEST_P(ReactorTest, SendsAndReceives) {
  EXPECT_EQ(reactor->runUntilComplete(echo(*reactor, pair[0], pair[1])), 4);
}

Task<int> receiveAll(Reactor& reactor, int fd, std::span<std::byte> into) {
  const int count = co_await reactor.receive(fd, into, MSG_WAITALL);
  co_return count;
}

TEST_P(ReactorTest, WaitAllReceivesTheWholeBufferThatComesInPieces) {
  std::thread writer([this] {
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_for(2ms);
      ASSERT_EQ(write(pair[0], "0123456789", 10), 10);
    }
  });
  std::array<std::byte, 100> into{};
  EXPECT_EQ(reactor->runUntilComplete(receiveAll(*reactor, pair[1], into)), 100);
  EXPECT_EQ(static_cast<char>(into[99]), '9');
  writer.join();
}

Task<int> fileRoundTrip(Reactor& reactor, int fd) {
  std::array<std::byte, 3> data{std::byte{7}, std::byte{8}, std::byte{9}};
  const int written = co_await reactor.writeAt(fd, data, 5);
  EXPECT_EQ(written, 3);
  const int synced = co_await reactor.syncData(fd);
  EXPECT_EQ(synced, 0);
  std::array<std::byte, 8> in{};
  const int count = co_await reactor.readAt(fd, in, 0);
  EXPECT_EQ(in[7], std::byte{9});
  co_return count;
}

TEST_P(ReactorTest, ReadsWritesAndSyncsFiles) {
  FILE* file = tmpfile();
  EXPECT_EQ(reactor->runUntilComplete(fileRoundTrip(*reactor, fileno(file))), 8);
  fclose(file);
}

Task<int> failingRead(Reactor& reactor) {
  std::array<std::byte, 1> in{};
  const int result = co_await reactor.readAt(-1, in, 0);
  co_return result;
}

TEST_P(ReactorTest, ReportsErrnoNegated) {
  EXPECT_EQ(reactor->runUntilComplete(failingRead(*reactor)), -EBADF);
}

Task<bool> sleepTwice(Reactor& reactor) {
  const auto start = Clock::now();
  co_await reactor.sleep(20ms);
  co_await reactor.sleep(0ms);
  co_return Clock::now() - start >= 20ms;
}

// Timers follow the engine's clock, which a test can move.
TEST_P(ReactorTest, WakesWhenTheClockHasBeenMovedPastItsTime) {
  const auto began = std::chrono::steady_clock::now();
  auto sleepAnHour = [](Reactor& on) -> Task<void> {
    on.post([] { moveClock(std::chrono::hours(1)); });  // in the next turn: it sleeps by then
    co_await on.sleep(std::chrono::hours(1));
  };
  reactor->runUntilComplete(sleepAnHour(*reactor));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::minutes(30));
}

TEST_P(ReactorTest, Sleeps) { EXPECT_TRUE(reactor->runUntilComplete(sleepTwice(*reactor))); }

Task<int> cancelledReceive(Reactor& reactor, int fd) {
  std::array<std::byte, 1> in{};
  auto receive = reactor.receive(fd, in);
  Operation& operation = receive.operation;
  Reactor::Timer timer(reactor);
  timer.start(Clock::now() + 10ms, [&] { reactor.cancel(operation); });
  const int result = co_await receive;
  co_return result;
}

TEST_P(ReactorTest, CancelsAPendingReceive) {
  EXPECT_EQ(reactor->runUntilComplete(cancelledReceive(*reactor, pair[0])), -ECANCELED);
}

Task<int> pollFor(Reactor& reactor, int fd, std::uint32_t events) {
  const int result = co_await reactor.poll(fd, events);
  co_return result;
}

TEST_P(ReactorTest, PollsForReadiness) {
  ASSERT_EQ(write(pair[0], "x", 1), 1);
  EXPECT_TRUE(reactor->runUntilComplete(pollFor(*reactor, pair[1], POLLIN)) & POLLIN);
  EXPECT_TRUE(reactor->runUntilComplete(pollFor(*reactor, pair[1], POLLOUT)) & POLLOUT);
}

Task<std::thread::id> offloaded(Reactor& reactor) {
  auto work = [] { return std::this_thread::get_id(); };
  const auto id = co_await reactor.offload(work);
  EXPECT_TRUE(reactor.onThisThread());
  co_return id;
}

TEST_P(ReactorTest, OffloadRunsElsewhereAndContinuesHere) {
  EXPECT_NE(reactor->runUntilComplete(offloaded(*reactor)), std::this_thread::get_id());
}

Task<int> hop(Reactor& home, Reactor& other, int times) {
  int hops = 0;
  for (int i = 0; i < times; ++i) {
    co_await other.enter();
    EXPECT_TRUE(other.onThisThread());
    ++hops;
    co_await home.enter();
    EXPECT_TRUE(home.onThisThread());
  }
  co_return hops;
}

TEST_P(ReactorTest, CoroutinesHopBetweenReactors) {
  auto other = Reactor::create(GetParam());
  ASSERT_TRUE(other.ok());
  std::thread thread([&] { (*other)->run(); });
  EXPECT_EQ(reactor->runUntilComplete(hop(*reactor, **other, 10'000)), 10'000);
  (*other)->stop();
  thread.join();
}

TEST_P(ReactorTest, PostedFunctionsRunInOrderFromManyThreads) {
  constexpr int kThreads = 4, kEach = 5'000;
  std::vector<int> last(kThreads, -1);
  int total = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        reactor->post([&, t, i] {
          EXPECT_EQ(last[static_cast<std::size_t>(t)], i - 1);
          last[static_cast<std::size_t>(t)] = i;
          if (++total == kThreads * kEach) reactor->stop();
        });
      }
    });
  }
  reactor->run();
  for (auto& poster : posters) poster.join();
  EXPECT_EQ(total, kThreads * kEach);
}

Task<bool> eventInTime(Reactor& reactor, Clock::duration setAfter, Clock::duration timeouts) {
  Event event(reactor);
  Reactor::Timer timer(reactor);
  timer.start(Clock::now() + setAfter, [&event] { event.set(); });
  const bool inTime = co_await event.waitUntil(Clock::now() + timeouts);
  co_return inTime;
}

TEST_P(ReactorTest, EventsHaveDeadlines) {
  EXPECT_TRUE(reactor->runUntilComplete(eventInTime(*reactor, 5ms, kHang)));
  EXPECT_FALSE(reactor->runUntilComplete(eventInTime(*reactor, kHang, 10ms)));
}

Task<void> holdUnits(Reactor& reactor, Semaphore& semaphore, std::uint64_t units,
                     std::vector<int>& order, int name) {
  co_await semaphore.acquire(units);
  order.push_back(name);
  co_await reactor.sleep(1ms);
  semaphore.release(units);
}

Task<std::vector<int>> contend(Reactor& reactor) {
  Semaphore semaphore(reactor, 10);
  std::vector<int> order;
  Gate gate(reactor);
  gate.spawn(holdUnits(reactor, semaphore, 6, order, 0));
  gate.spawn(holdUnits(reactor, semaphore, 10, order, 1));
  gate.spawn(holdUnits(reactor, semaphore, 1, order, 2));
  co_await gate.close();
  EXPECT_EQ(semaphore.available(), 10u);
  co_return order;
}

TEST_P(ReactorTest, SemaphoreServesInOrderOfArrival) {
  EXPECT_EQ(reactor->runUntilComplete(contend(*reactor)), (std::vector<int>{0, 1, 2}));
}

INSTANTIATE_TEST_SUITE_P(Backends, ReactorTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& test) {
                           return test.param == Reactor::Backend::kIoUring ? "IoUring" : "Epoll";
                         });

}  // namespace
}  // namespace hearth
