// The order in which a queue sends, shown by where frames lie in the stream: the other side reads
// nothing until all is queued.
#include "transport/send_queue.h"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>

#include "base/testing/eventually.h"
#include "transport/limits.h"
#include "transport/socket.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::byte kLarge{1}, kSmall{2};

struct SendQueueTest : testing::TestWithParam<Reactor::Backend> {
  void SetUp() override {
    const SocketAddress any = *socketAddress({"127.0.0.1", 0});
    const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener.fd(), any.get(), any.size), 0);
    ASSERT_EQ(listen(listener.fd(), 1), 0);
    const SocketAddress address = *socketAddress(localAddress(listener.fd()));
    sender = *openSocket(address);
    connect(sender.fd(), address.get(), address.size);
    receiver = Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    ASSERT_GE(receiver.fd(), 0);
    tuneConnection(sender.fd());
    gate.spawn(run());
  }
  void TearDown() override {
    queue.close();
    sender.shutDown();
    reactor->runUntilComplete(closed());
  }
  Task<void> run() { static_cast<void>(co_await queue.run(sender.fd())); }
  Task<bool> closed() {
    co_await gate.close();
    co_return true;
  }
  Task<bool> slept() {
    co_await reactor->sleep(1ms);
    co_return true;
  }
  void turn() { reactor->runUntilComplete(slept()); }

  // An answer of a chunk in slices.
  void pushLarge(RequestClass requestClass, std::uint64_t id) {
    std::deque<LentParts::Part> slices;
    for (std::size_t at = 0; at < kChunkBytes; at += kSliceToSendBytes)
      slices.push_back({std::vector<std::byte>(8, kLarge), kSliceToSendBytes});
    queue.push({.frame = {},
                .payload = chunk,
                .keep = nullptr,
                .requestId = id,
                .requestClass = requestClass,
                .slices = std::move(slices)});
  }
  void pushSmall(std::uint64_t id) {
    queue.push({.frame = std::vector<std::byte>(8, kSmall),
                .payload = std::span(chunk).first(4096),
                .keep = nullptr,
                .requestId = id});
  }
  // Waits until nothing more goes, as the other side does not read.
  void stall() {
    int still = 0;
    ASSERT_TRUE(eventually([&] {
      pollfd out{sender.fd(), POLLOUT, 0};
      const std::uint64_t before = queue.sent();
      turn();
      still = queue.sent() == before && poll(&out, 1, 0) == 0 ? still + 1 : 0;
      return still >= 50;
    }));
  }
  // Sent bytes that are on their way or have come.
  [[nodiscard]] std::uint64_t gone() const {
    tcp_info info{};
    socklen_t size = sizeof info;
    EXPECT_EQ(getsockopt(sender.fd(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return queue.sent() - info.tcpi_notsent_bytes;
  }
  // Offset of the first small frame in the received bytes.
  std::uint64_t receiveToSmall() {
    std::uint64_t at = 0;
    std::vector<std::byte> bytes(1 << 20);
    const bool found = eventually([&] {
      turn();
      for (;;) {
        const ssize_t got = recv(receiver.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got <= 0) return false;
        const auto end = bytes.begin() + got;
        const auto small = std::find(bytes.begin(), end, kSmall);
        at += static_cast<std::uint64_t>(small - bytes.begin());
        if (small != end) return true;
      }
    });
    EXPECT_TRUE(found);
    return at;
  }

  const std::vector<std::byte> chunk = std::vector<std::byte>(kChunkBytes);
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create(GetParam()));
  Gate gate{*reactor};
  SendQueue queue{*reactor, [this](const SendItem& item) { begun.push_back(item.requestId); },
                  [this](const SendItem& item) { sent.push_back(item.requestId); }};
  Socket sender, receiver;
  std::vector<std::uint64_t> begun, sent;
};

INSTANTIATE_TEST_SUITE_P(Backends, SendQueueTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

// Includes bytes that the kernel holds and has not sent: nothing can overtake them.
TEST_P(SendQueueTest, ASmallAnswerWaitsForTwoSlicesAtMost) {
  for (std::uint64_t id = 1; id <= 8; ++id)
    pushLarge(id % 2 == 0 ? RequestClass::kDemand : RequestClass::kWarm, id);
  stall();
  const std::uint64_t sentBefore = queue.sent(), goneBefore = gone();
  ASSERT_LT(sentBefore, 8 * kChunkBytes) << "some of it waits";
  pushSmall(9);
  const std::uint64_t at = receiveToSmall();
  EXPECT_LE(at - sentBefore, kSliceToSendBytes + 8);
  EXPECT_LE(at - goneBefore, 2 * (kSliceToSendBytes + 8) + kBlockBytes)
      << "the kernel looks at its bound before it takes a piece";
}

TEST_P(SendQueueTest, BeginsAndSendsASlicedItemOnce) {
  pushLarge(RequestClass::kWarm, 1);
  pushLarge(RequestClass::kDemand, 2);
  pushSmall(3);
  receiveToSmall();
  std::vector<std::byte> bytes(1 << 20);
  EXPECT_TRUE(eventually([&] {
    turn();
    while (recv(receiver.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
    return queue.idle();
  }));
  EXPECT_EQ(queue.sent(), 2 * kChunkBytes + 32 * 8 + 8 + 4096);
  EXPECT_EQ(begun, (std::vector<std::uint64_t>{3, 2, 1}));
  EXPECT_EQ(sent, (std::vector<std::uint64_t>{3, 2, 1}));
}

TEST_P(SendQueueTest, WithdrawsSlicesThatHaveNotBegun) {
  pushLarge(RequestClass::kDemand, 1);
  pushLarge(RequestClass::kDemand, 2);
  stall();
  const std::uint64_t sentBefore = queue.sent();
  EXPECT_TRUE(queue.withdraw(2, std::vector<std::byte>(8, kSmall)));
  EXPECT_LE(receiveToSmall() - sentBefore, kSliceToSendBytes + 8);
  EXPECT_FALSE(queue.withdraw(2, {})) << "it is a frame now";
}

}  // namespace
}  // namespace hearth
