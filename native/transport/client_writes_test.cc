// Writes to an agent that the test plays: one that stops, and one that answers before it has the
// bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

class ClientWritesTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // Plays "asked", which takes writes, for one connection after the other, each as `behave` does
  // with the id of the first request, a write, until the test ends.
  void start(std::function<void(RawPeer&, std::uint64_t)> behave) {
    TransportOptions options = TestNode::optionsOf("asker");
    options.offer.features = kWireFeaturesWithWrites;
    asker = std::make_unique<TestNode>(std::move(options), GetParam());
    asker->setPeers({acceptor.identity("asked")});
    thread = std::thread([this, behave] {
      while (!ended) {
        RawPeer peer = acceptor.accept();
        if (peer.fd() < 0 || ended || !welcomes(peer)) continue;
        const std::optional<RawPeer::Got> request = peer.frame();
        if (!request || request->header.type != FrameType::kWriteRequest) continue;
        ++writes;
        behave(peer, request->header.requestId);
      }
    });
  }
  static bool welcomes(RawPeer& peer) {
    Challenge challenge{"test", "asked", "1", randomNonce()};
    challenge.features = kWireFeaturesWithWrites;
    return peer.welcome(encodeFrame(challenge), {1 << 26, 100, WriteCredit{1 << 26, 100}});
  }
  void TearDown() override {
    ended = true;
    asker.reset();
    { const RawPeer last(acceptor.address()); }
    if (thread.joinable()) thread.join();
  }
  Status write(std::span<std::byte> from, RequestTimeouts timeouts) {
    return asker->await([&] {
      return asker->transport->write("asked", ContentKey(), 0, 1, std::nullopt,
                                     MemorySlice::of(from), timeouts, RequestClass::kDemand);
    });
  }

  RawAcceptor acceptor;
  std::unique_ptr<TestNode> asker;
  std::thread thread;
  std::atomic<bool> ended{false};
  std::atomic<int> writes{0};
  std::vector<std::byte> bytes = patternBytes(kChunkBytes);
};

INSTANTIATE_TEST_SUITE_P(Backends, ClientWritesTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

// The kernel of a stopped process still acknowledges bytes. The first acknowledgement of a write's
// bytes is a sign of life, but those of later probes are none: otherwise each would give the peer
// more time.
TEST_P(ClientWritesTest, NoticesAStoppedPeerWhoseKernelAcknowledgesProbes) {
  for (const bool ready : {false, true}) {
    start([this, ready](RawPeer& peer, std::uint64_t id) {
      if (ready) peer.send(encodeEmptyFrame(FrameType::kWriteReady, id));
      while (!ended) std::this_thread::sleep_for(5ms);
    });
    const Status status = write(std::span(bytes).first(2 * kBlockBytes),
                                RequestTimeouts(Clock::now() + kHang, 300ms));
    EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(status.error().message, HasSubstr("no sign of life for 300 ms")) << ready;
    TearDown();
    ended = false;
  }
}

// A peer that answers so has not got the bytes, and their memory would be reused while they are
// being sent. One part waits to be sent, and then one of many is being sent.
TEST_P(ClientWritesTest, ASuccessBeforeTheLastPartWasSentIsAProtocolError) {
  for (const std::size_t size : {kBlockBytes, kChunkBytes}) {
    const std::vector<std::byte> sent = bytes;
    std::atomic<int> closed{0};
    start([&](RawPeer& peer, std::uint64_t id) {
      std::vector<std::byte> both = encodeEmptyFrame(FrameType::kWriteReady, id);
      std::ranges::copy(encodeFrame(WriteAnswer{}, id), std::back_inserter(both));
      peer.send(both);
      for (std::size_t at = 0; const auto data = peer.expect<WriteData>();) {
        const std::vector<std::byte> got = peer.receive(data->payloadLength);
        EXPECT_TRUE(std::ranges::equal(got, std::span(sent).subspan(at, got.size())));
        at += got.size();
        EXPECT_LT(at, size);
      }
      closed += peer.closed() ? 1 : 0;
    });
    const Status status = write(std::span(bytes).first(size), Clock::now() + kHang);
    // The caller has its memory again.
    std::ranges::fill(bytes, std::byte{0x5a});
    EXPECT_EQ(status.code(), ErrorCode::kProtocolError);
    EXPECT_THAT(status.error().message, HasSubstr("took a write before it was sent")) << size;
    TearDown();
    EXPECT_EQ(writes, 2) << "it is tried once more";
    EXPECT_EQ(closed, 2);
    writes = 0;
    ended = false;
    bytes = sent;
  }
}

}  // namespace
}  // namespace hearth
