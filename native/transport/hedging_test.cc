// A connection falls silent while the peer has another one: its requests go to the other one, and
// it is left alone until a byte comes.
#include <gtest/gtest.h>

#include <functional>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

class HedgingTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // A peer of two addresses. The test plays the first, as `behave` says of each read.
  void start(std::function<void(RawPeer&, const ReadRequest&, std::uint64_t)> behave) {
    good = std::make_unique<TestNode>(TestNode::optionsOf("asked"), GetParam());
    asker = std::make_unique<TestNode>(TestNode::optionsOf("asker"), GetParam());
    PeerIdentity identity = acceptor.identity("asked");
    identity.addresses.push_back(good->listeners[0]->address());
    asker->setPeers({identity});
    thread = std::thread([this, behave] {
      while (!ended) {
        RawPeer peer = acceptor.accept();
        if (peer.fd() < 0 || ended || !peer.welcome("asked")) continue;
        while (const auto frame = peer.frame()) {
          if (frame->header.type == FrameType::kPing)
            peer.send(encodeEmptyFrame(FrameType::kPong, frame->header.requestId));
          if (frame->header.type != FrameType::kReadRequest) continue;
          ++asked;
          behave(peer, *decodeBody<ReadRequest>(frame->body), frame->header.requestId);
        }
      }
    });
    std::vector<std::byte> little(100);
    ASSERT_TRUE(asker->read("asked", kPlain, 0, little).ok());
    ASSERT_TRUE(asker->eventually("asked", [](const auto& entry) { return entry.streams == 2; }));
  }
  void TearDown() override {
    asker.reset();
    acceptor.end(ended, thread);
  }
  // A whole chunk: a slice for each connection.
  Status readChunk() {
    into.assign(kChunkBytes, std::byte{0});
    const Status status = asker->read("asked", kPlain, 0, into);
    EXPECT_TRUE(!status.ok() || into == good->handler->chunk);
    return status;
  }
  std::span<const std::byte> bytesOf(const ReadRequest& read) const {
    return std::span<const std::byte>(good->handler->chunk).subspan(read.offset, read.length);
  }
  std::vector<std::byte> frameOf(const ReadRequest& read, std::uint64_t id) const {
    return encodeFrame(ReadAnswer{.payloadLength = read.length,
                                  .blockChecksums = crc32cOfBlocks(bytesOf(read), kBlockBytes)},
                       id);
  }
  void sleepUntil(const std::atomic<bool>& flag) const {
    while (!flag && !ended) std::this_thread::sleep_for(1ms);
  }

  RawAcceptor acceptor;
  std::unique_ptr<TestNode> good, asker;
  std::thread thread;
  std::atomic<bool> ended{false}, awake{false};
  std::atomic<int> asked{0};
  std::vector<std::byte> into;
};

INSTANTIATE_TEST_SUITE_P(Backends, HedgingTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(HedgingTest, LeavesASilentConnectionAloneUntilItComesBack) {
  start([this](RawPeer& peer, const ReadRequest& read, std::uint64_t id) {
    sleepUntil(awake);
    peer.send(frameOf(read, id));
    peer.send(bytesOf(read));
  });
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(readChunk().ok()) << i;
  const PeerStatistics statistics = asker->statisticsOf("asked");
  EXPECT_GE(statistics.hedged, 1u);
  EXPECT_GE(statistics.paused, 1u);
  // On a busy machine the other connection may fall silent, too: then there is none to go to.
  if (statistics.paused == 1) {
    EXPECT_EQ(asked, 1) << "it was asked once, and is asked no more";
  }
  awake = true;
  EXPECT_TRUE(eventually([&] { return readChunk().ok() && asked > 1; }));
  EXPECT_EQ(asker->statisticsOf("asked").streams, 2u) << "on the same connection";
}

// Its bytes go into the reader's memory, which is free when the connection has ended.
TEST_P(HedgingTest, MovesAReadWhoseAnswerFallsSilent) {
  start([this](RawPeer& peer, const ReadRequest& read, std::uint64_t id) {
    if (read.length == 100) {
      peer.send(frameOf(read, id));
      peer.send(bytesOf(read));
      return;
    }
    peer.send(frameOf(read, id));
    peer.send(bytesOf(read).first(read.length / 2));
    sleepUntil(awake);
  });
  ASSERT_TRUE(readChunk().ok());
  EXPECT_GE(asker->statisticsOf("asked").hedged, 1u);
  awake = true;
}

// A slow peer answers probes meanwhile, and readers wait for it.
TEST_P(HedgingTest, WaitsForAPeerThatAnswersProbes) {
  start([this](RawPeer& peer, const ReadRequest& read, std::uint64_t id) {
    std::vector<std::pair<ReadRequest, std::uint64_t>> reads{{read, id}};
    int pings = read.length == 100 ? 4 : 0;
    while (pings < 4) {
      const auto frame = peer.frame();
      if (!frame) return;
      if (frame->header.type == FrameType::kReadRequest) {
        ++asked;
        reads.emplace_back(*decodeBody<ReadRequest>(frame->body), frame->header.requestId);
      }
      if (frame->header.type != FrameType::kPing) continue;
      peer.send(encodeEmptyFrame(FrameType::kPong, frame->header.requestId));
      ++pings;
    }
    for (const auto& [each, request] : reads) {
      peer.send(frameOf(each, request));
      peer.send(bytesOf(each));
    }
  });
  // A peer whose thread gets no processor answers no probe: tries until it did.
  EXPECT_TRUE(eventually([&] {
    const int before = asked;
    const std::uint64_t hedged = asker->statisticsOf("asked").hedged;
    EXPECT_TRUE(readChunk().ok());
    return asked > before && asker->statisticsOf("asked").hedged == hedged;
  }));
}

}  // namespace
}  // namespace hearth
