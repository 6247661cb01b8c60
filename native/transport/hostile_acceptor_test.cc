// Answers of broken or foreign peers to an agent that asks: the request fails in time or succeeds
// elsewhere, the statistics have the reason, and nothing writes into memory that has been given
// back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

class HostileAcceptorTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // Plays "asked" for as many connections as come, each as `behave` says, until the test ends.
  void start(std::function<void(RawPeer&)> behave, Clock::duration probe = 5s) {
    TransportOptions options = TestNode::optionsOf("asker");
    options.idleProbe = probe;
    asker = std::make_unique<TestNode>(options, GetParam());
    asker->setPeers({acceptor.identity("asked")});
    thread = std::thread([this, behave] {
      while (!ended) {
        RawPeer peer = acceptor.accept();
        if (peer.fd() >= 0 && !ended) behave(peer);
      }
    });
  }
  void TearDown() override {
    asker.reset();
    ended = true;
    { const RawPeer last(acceptor.address()); }
    if (thread.joinable()) thread.join();
  }
  Status read(Clock::duration timeout = kHang) {
    into.assign(100, std::byte{0});
    return asker->read("asked", kPlain, 0, into, timeout);
  }
  std::string errorOf() { return asker->statisticsOf("asked").error; }

  RawAcceptor acceptor;
  std::unique_ptr<TestNode> asker;
  std::thread thread;
  std::atomic<bool> ended{false};
  std::vector<std::byte> into;
  // Shared by the acceptor's thread and the test.
  const std::vector<std::byte> payload = patternBytes(100);
  std::atomic<std::size_t> cut{0};
  std::atomic<int> connections{0};
  std::atomic<int> variant{0};
  std::atomic<bool> asked{false};
};

INSTANTIATE_TEST_SUITE_P(Backends, HostileAcceptorTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

std::vector<std::byte> answerFor(std::uint64_t requestId, std::span<const std::byte> payload) {
  ReadAnswer answer;
  answer.payloadLength = static_cast<std::uint32_t>(payload.size());
  answer.blockChecksums = crc32cOfBlocks(payload, kBlockBytes);
  std::vector<std::byte> bytes = encodeFrame(answer, requestId);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

// Waits until the asker has gone.
void drain(RawPeer& peer) {
  while (!peer.receive(1).empty()) {
  }
}

TEST_P(HostileAcceptorTest, AnswersCutAtEveryByteFailAndAreTriedOnce) {
  start([this](RawPeer& peer) {
    ++connections;
    if (!peer.welcome("asked")) return;
    const auto request = peer.frame();
    if (!request) return;
    const std::vector<std::byte> answer = answerFor(request->header.requestId, payload);
    peer.send(std::span(answer).first(std::min<std::size_t>(cut, answer.size())));
  });
  const std::size_t whole = answerFor(1, payload).size();
  for (cut = 0; cut < whole; ++cut) {
    const Status status = read();
    EXPECT_EQ(status.code(), ErrorCode::kUnavailable) << cut << status.error().message;
  }
  EXPECT_EQ(connections, 2 * static_cast<int>(whole));
  EXPECT_THAT(errorOf(), HasSubstr("closed the connection"));
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(into, payload);
}

TEST_P(HostileAcceptorTest, AnswersThatWereNotAskedForEndTheConnection) {
  start([this](RawPeer& peer) {
    if (!peer.welcome("asked")) return;
    const auto request = peer.frame();
    if (!request) return;
    const std::uint64_t id = request->header.requestId;
    switch (variant) {
      case 0:  // another id
        peer.send(answerFor(id + 1, payload));
        break;
      case 1:  // another length
        peer.send(answerFor(id, std::span(payload).first(99)));
        break;
      case 2:  // another kind
        peer.send(encodeFrame(ControlAnswer{}, id));
        break;
      case 3:  // a frame of the dialler's
        peer.send(encodeFrame(*decodeBody<ReadRequest>(request->body), 1));
        break;
      default:
        peer.send(patternBytes(64));
    }
    drain(peer);
  });
  const char* const reasons[] = {"not asked", "number of bytes", "not asked", "only the dialler",
                                 "not Hearth's"};
  for (variant = 0; variant < 5; ++variant) {
    const Status status = read();
    EXPECT_EQ(status.code(), ErrorCode::kProtocolError) << variant;
    EXPECT_THAT(status.error().message, HasSubstr(reasons[variant]));
    EXPECT_THAT(errorOf(), HasSubstr(reasons[variant]));
  }
}

TEST_P(HostileAcceptorTest, StallsInsideAnAnswerEndAtTheDeadline) {
  start([](RawPeer& peer) {
    if (!peer.welcome("asked")) return;
    const auto request = peer.frame();
    if (!request) return;
    const std::vector<std::byte> answer =
        answerFor(request->header.requestId, patternBytes(kChunkBytes));
    peer.send(std::span(answer).first(answer.size() / 2));
    drain(peer);
  });
  std::vector<std::byte> chunk(kChunkBytes);
  const Status status = asker->read("asked", kPlain, 0, chunk, 200ms);
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
}

TEST_P(HostileAcceptorTest, SilenceIsNoticed) {
  start(
      [](RawPeer& peer) {
        if (peer.welcome("asked")) drain(peer);
      },
      30ms);
  const Status status = read();
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("no sign of life"));
}

TEST_P(HostileAcceptorTest, AcceptorsThatDoNotKnowTheSecretAreNotAsked) {
  start([this](RawPeer& peer) {
    if (!peer.expect<Preface>() || !peer.expect<Hello>()) return;
    peer.send(encodeFrame(Challenge{"test", "asked", "1", randomNonce()}));
    if (!peer.expect<Proof>()) return;
    peer.send(encodeFrame(Proof{}));
    if (peer.frame()) asked = true;
  });
  const Status status = read();
  EXPECT_EQ(status.code(), ErrorCode::kUnauthenticated) << status.error().message;
  EXPECT_FALSE(asked);
}

TEST_P(HostileAcceptorTest, AnotherNodeAtTheAddressIsNotAsked) {
  start([](RawPeer& peer) { peer.welcome("other"); });
  const Status status = read();
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("other (1) answers there"));
}

TEST_P(HostileAcceptorTest, HandshakesThatStallEndInTime) {
  TransportOptions options = TestNode::optionsOf("asker");
  options.connectTimeout = 100ms;
  TestNode impatient(options, GetParam());
  impatient.setPeers({acceptor.identity("asked")});
  std::vector<std::byte> bytes(100);
  const Status status = impatient.read("asked", kPlain, 0, bytes);
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("no connection in time"));
}

// One of the peer's addresses breaks off inside each answer: the second try never goes there,
// wherever the first went.
TEST_P(HostileAcceptorTest, APeerKilledInTheMiddleIsAskedAgainThroughItsOtherAddress) {
  start([this](RawPeer& peer) {
    if (!peer.welcome("asked")) return;
    const auto request = peer.frame();
    if (!request || request->header.type != FrameType::kReadRequest) return;  // a Goodbye
    ++connections;
    const std::uint32_t length = decodeBody<ReadRequest>(request->body)->length;
    const std::vector<std::byte> answer =
        answerFor(request->header.requestId, patternBytes(length));
    peer.send(std::span(answer).first(answer.size() / 2));
    peer.shutDown();
  });
  TestNode other(TestNode::optionsOf("asked"), GetParam());
  PeerIdentity identity = other.identity();
  identity.addresses.insert(identity.addresses.begin(), acceptor.address());
  for (const std::uint32_t streams : {1u, 2u}) {
    TransportOptions options = TestNode::optionsOf("third");
    options.streamsPerPeer = streams;
    TestNode third(options, GetParam());
    third.setPeers({identity});
    std::vector<std::byte> chunk(kChunkBytes);
    const int before = connections;
    // On a busy machine the other address may be connected first, and gets the requests for a
    // while.
    constexpr int kReads = 10, kMaxReads = 500;
    for (int i = 0; i < kReads || (connections == before && i < kMaxReads); ++i) {
      std::fill(chunk.begin(), chunk.end(), std::byte{0});
      const Status status = third.read("asked", kPlain, 0, chunk);
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(chunk, other.handler->chunk);
    }
    EXPECT_EQ(connections, before + 1) << "once, as the first choice of the first stream";
    // The connection is reset if it was slow and has not read a probe.
    EXPECT_THAT(third.statisticsOf("asked").error,
                AnyOf(HasSubstr("closed the connection"), HasSubstr("reset by peer")));
  }
}

// Holds even if another stream to the same address has less to do.
TEST_P(HostileAcceptorTest, BadBytesOfOneAddressAreAskedForAtTheOther) {
  TestNode bad(TestNode::optionsOf("asked"), GetParam());
  TestNode good(TestNode::optionsOf("asked"), GetParam());
  good.handler->badOnce = false;
  TransportOptions options = TestNode::optionsOf("third");
  options.streamsPerPeer = 4;  // two at each address
  TestNode third(options, GetParam());
  PeerIdentity identity = bad.identity();
  identity.addresses.push_back(good.listeners[0]->address());
  third.setPeers({identity});
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(third.read("asked", kPlain, 0, bytes).ok());
  ASSERT_TRUE(third.eventually("asked", [](const auto& entry) { return entry.streams == 4; }));
  bad.handler->reads = good.handler->reads = 0;
  std::vector<std::thread> waiting;
  std::atomic<int> answered{0};
  for (int i = 0; i < 4; ++i) {
    waiting.emplace_back([&third, &answered] {
      std::vector<std::byte> late(100);
      EXPECT_TRUE(third.read("asked", kStuck, 0, late).ok());
      ++answered;
    });
  }
  EXPECT_TRUE(eventually([&] { return bad.handler->reads + good.handler->reads >= 4; }));
  // On a busy machine an address may fall silent, and then gets no more requests.
  const auto moved = [&] { return third.statisticsOf("asked").hedged != 0; };
  bad.post([&] { bad.handler->released.set(); });
  EXPECT_TRUE(eventually([&] { return answered == bad.handler->reads || moved(); }));
  EXPECT_TRUE(third.read("asked", kBadOnce, 0, bytes).ok());
  if (!moved()) {
    EXPECT_EQ(bad.handler->reads, 3);
    EXPECT_EQ(good.handler->reads, 3);
  }
  good.post([&] { good.handler->released.set(); });
  for (std::thread& each : waiting) each.join();
}

}  // namespace
}  // namespace hearth
