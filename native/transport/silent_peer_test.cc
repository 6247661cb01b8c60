// Peers that stop in the middle, as a process on SIGSTOP: the kernel still acknowledges, and
// nothing comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

constexpr auto kSilence = 300ms;

class SilentPeerTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // Plays "asked" for one connection after the other, each as `behave` says, until the test ends.
  void start(std::function<void(RawPeer&)> behave) {
    asker = std::make_unique<TestNode>(TestNode::optionsOf("asker"), GetParam());
    asker->setPeers({acceptor.identity("asked")});
    thread = std::thread([this, behave] {
      while (!ended) {
        RawPeer peer = acceptor.accept();
        if (peer.fd() < 0 || ended) continue;
        ++connections;
        if (peer.welcome("asked")) behave(peer);
      }
    });
  }
  void TearDown() override {
    goOn.store(true);
    asker.reset();
    ended = true;
    { const RawPeer last(acceptor.address()); }
    if (thread.joinable()) thread.join();
  }
  Status read(std::span<std::byte> bytes, Clock::duration silence = kSilence) {
    std::vector<std::uint32_t> checksums;
    return asker->await([&] {
      return asker->transport->read("asked", keyOf(kPlain), 0, MemorySlice::of(bytes), checksums,
                                    RequestTimeouts(Clock::now() + kHang, silence),
                                    RequestClass::kDemand);
    });
  }
  void stopHere() {
    stopped = true;
    while (!goOn && !ended) std::this_thread::sleep_for(5ms);
  }
  static std::vector<std::byte> answerTo(const RawPeer::Got& request) {
    ReadAnswer answer;
    answer.payloadLength = decodeBody<ReadRequest>(request.body)->length;
    const std::vector<std::byte> payload = patternBytes(answer.payloadLength);
    answer.blockChecksums = crc32cOfBlocks(payload, kBlockBytes);
    std::vector<std::byte> bytes = encodeFrame(answer, request.header.requestId);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
  }
  // Answers all requests, including those that were given up.
  static void serve(RawPeer& peer) {
    while (const auto request = peer.frame()) {
      if (request->header.type == FrameType::kPing) {
        peer.send(encodeEmptyFrame(FrameType::kPong, request->header.requestId));
      } else if (request->header.type == FrameType::kReadRequest) {
        peer.send(answerTo(*request));
      }
    }
  }

  RawAcceptor acceptor;
  std::unique_ptr<TestNode> asker;
  std::thread thread;
  std::atomic<bool> ended{false}, goOn{false}, stopped{false};
  std::atomic<int> connections{0};
};

INSTANTIATE_TEST_SUITE_P(Backends, SilentPeerTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(SilentPeerTest, IsNotWaitedForAndComesBackOnTheSameConnection) {
  start([this](RawPeer& peer) {
    stopHere();
    serve(peer);
  });
  std::vector<std::byte> bytes(kBlockBytes);
  const auto before = Clock::now();
  const Status first = read(bytes);
  EXPECT_EQ(first.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(first.error().message, HasSubstr("no sign of life for 300 ms"));
  EXPECT_GE(Clock::now() - before, kSilence);
  // The silence is known now: later callers do not wait. Two hundred that did would take a minute.
  const auto again = Clock::now();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(read(bytes).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_LT(Clock::now() - again, 200 * kSilence);
  goOn = true;
  EXPECT_TRUE(eventually([&] { return read(bytes).ok(); }));
  EXPECT_EQ(bytes, patternBytes(kBlockBytes));
  EXPECT_EQ(connections, 1);
}

TEST_P(SilentPeerTest, StoppedInTheMiddleOfAnAnswerItWritesNothingAfterTheReadHasEnded) {
  start([this](RawPeer& peer) {
    const auto request = peer.frame();
    if (!request || request->header.type != FrameType::kReadRequest) return;
    const std::vector<std::byte> answer = answerTo(*request);
    const auto bytes = std::span(answer);
    peer.send(bytes.first(bytes.size() / 2));
    stopHere();
    peer.send(bytes.subspan(bytes.size() / 2));
    serve(peer);
  });
  std::vector<std::byte> bytes(kChunkBytes);
  const Status first = read(bytes);
  EXPECT_EQ(first.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(first.error().message, HasSubstr("no sign of life"));
  // Another owner has the memory from now on.
  std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
  EXPECT_EQ(read(std::span(bytes).first(0)).code(), ErrorCode::kOk);
  goOn = true;
  std::vector<std::byte> other(kChunkBytes);
  EXPECT_TRUE(eventually([&] { return read(other).ok(); }));
  EXPECT_EQ(other, patternBytes(kChunkBytes));
  EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0x5a}; }));
}

TEST_P(SilentPeerTest, WaitsForASlowTransfer) {
  start([](RawPeer& peer) {
    const auto request = peer.frame();
    if (!request || request->header.type != FrameType::kReadRequest) return;
    const std::vector<std::byte> answer = answerTo(*request);
    for (std::size_t at = 0; at < answer.size();) {
      const std::size_t size = std::min<std::size_t>(50'000, answer.size() - at);
      peer.send(std::span(answer).subspan(at, size));
      at += size;
      std::this_thread::sleep_for(250ms);
    }
    serve(peer);
  });
  std::vector<std::byte> bytes(8 * kBlockBytes);
  const Status status = read(bytes, 2s);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

// An agent on a machine short of processors, which gets to its own work late, must not take others
// for silent.
TEST_P(SilentPeerTest, ALateAskerWaitsLonger) {
  start([](RawPeer& peer) {
    const auto request = peer.frame();
    if (!request || request->header.type != FrameType::kReadRequest) return;
    std::this_thread::sleep_for(4 * kSilence);
    peer.send(answerTo(*request));
    serve(peer);
  });
  std::atomic<bool> busy{true};
  std::function<void()> hog = [&] {
    std::this_thread::sleep_for(kSilence / 2);
    if (busy) asker->reactor->post(hog);
  };
  asker->reactor->post(hog);
  std::vector<std::byte> bytes(kBlockBytes);
  const Status status = read(bytes);
  asker->post([&] { busy = false; });
  asker->post([] {});  // the last post has ended
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(bytes, patternBytes(kBlockBytes));
}

// The peer's disk is slow, but the peer runs: its answers to probes show that.
TEST_P(SilentPeerTest, WaitsForASlowHandler) {
  TestNode asked(TestNode::optionsOf("slow"), GetParam());
  asked.post([&] { asked.handler->delay = 4s; });
  TestNode patient(TestNode::optionsOf("asker"), GetParam());
  patient.setPeers({asked.identity()});
  std::vector<std::byte> bytes(kBlockBytes);
  std::vector<std::uint32_t> checksums;
  const Status status = patient.await([&] {
    return patient.transport->read("slow", keyOf(kSlow), 0, MemorySlice::of(bytes), checksums,
                                   RequestTimeouts(Clock::now() + kHang, 3s),
                                   RequestClass::kDemand);
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
}

TEST_P(SilentPeerTest, ControlMessagesGoElsewhereToo) {
  start([this](RawPeer&) { stopHere(); });
  const Result<ControlMessage> answer = asker->await([&] {
    return asker->transport->call("asked", ControlMessage{7, {}},
                                  RequestTimeouts(Clock::now() + kHang, kSilence));
  });
  EXPECT_EQ(answer.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(answer.error().message, HasSubstr("no sign of life"));
  asker->post([&] {
    EXPECT_FALSE(asker->transport->lives("asked", kSilence));
    EXPECT_FALSE(asker->transport->lives("unknown", kSilence));
  });
}

// The peer answers probes, and has no answer to the request yet.
TEST_P(SilentPeerTest, APeerThatIsLateWithAnAnswerLives) {
  start([](RawPeer& peer) { serve(peer); });
  const Result<ControlMessage> answer = asker->await([&] {
    return asker->transport->call("asked", ControlMessage{7, {}},
                                  RequestTimeouts(Clock::now() + 1s, kHang));
  });
  EXPECT_EQ(answer.code(), ErrorCode::kDeadlineExceeded);
  asker->post([&] { EXPECT_TRUE(asker->transport->lives("asked", kHang)); });
}

// Nothing answers at the address, not even to a handshake.
TEST_P(SilentPeerTest, AnUnreachablePeerDoesNotLive) {
  const RawAcceptor deaf;
  asker = std::make_unique<TestNode>(TestNode::optionsOf("asker"), GetParam());
  asker->setPeers({deaf.identity("asked")});
  const Result<ControlMessage> answer = asker->await([&] {
    return asker->transport->call("asked", ControlMessage{7, {}},
                                  RequestTimeouts(Clock::now() + kSilence, kSilence));
  });
  EXPECT_EQ(answer.code(), ErrorCode::kDeadlineExceeded);
  asker->post([&] { EXPECT_FALSE(asker->transport->lives("asked", kHang)); });
}

}  // namespace
}  // namespace hearth
