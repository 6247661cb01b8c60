// Answers that come in several parts, from an acceptor that this test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

constexpr std::size_t kPartialLength = 3 * kBlockBytes + 1234;

class PartialAnswersTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // Answers every read by `say`, on connections with these features.
  void start(std::function<void(RawPeer&, std::uint64_t requestId)> answer,
             std::uint64_t features = kWireFeatures) {
    asker = std::make_unique<TestNode>(TestNode::optionsOf("asker"), GetParam());
    asker->setPeers({acceptor.identity("asked")});
    thread = std::thread([this, answer = std::move(answer), features] {
      while (!ended) {
        RawPeer peer = acceptor.accept();
        if (peer.fd() < 0 || ended) continue;
        Challenge challenge{"test", "asked", "1", randomNonce()};
        challenge.features = features;
        if (!peer.welcome(encodeFrame(challenge))) continue;
        while (const auto request = peer.frame()) {
          if (request->header.type == FrameType::kReadRequest)
            answer(peer, request->header.requestId);
          if (request->header.type == FrameType::kGoodbye) break;
        }
      }
    });
  }
  void TearDown() override {
    asker.reset();
    acceptor.end(ended, thread);
  }
  Status read() {
    into.assign(kPartialLength, std::byte{0});
    return asker->read("asked", kPlain, 0, into);
  }
  // Blocks [first, first + count) of the bytes.
  void sendPart(RawPeer& peer, std::uint64_t requestId, std::size_t first, std::size_t count,
                bool last, bool good = true) const {
    const std::size_t begin = first * kBlockBytes;
    const std::size_t size = std::min(count * kBlockBytes, bytes.size() - begin);
    const auto part = std::span<const std::byte>(bytes).subspan(begin, size);
    ReadAnswer answer{.payloadLength = static_cast<std::uint32_t>(size),
                      .blockChecksums = crc32cOfBlocks(part, kBlockBytes),
                      .part = AnswerPart{static_cast<std::uint32_t>(begin), last}};
    if (!good) answer.blockChecksums.front() ^= 1;
    peer.send(encodeFrame(answer, requestId));
    peer.send(part);
  }

  const std::vector<std::byte> bytes = patternBytes(kPartialLength);
  RawAcceptor acceptor;
  std::unique_ptr<TestNode> asker;
  std::thread thread;
  std::atomic<bool> ended{false};
  std::atomic<bool> late{false};  // the peer goes on
  // The frames that the peer saw; kept here, since its thread may look at them until TearDown has
  // joined it.
  std::atomic<int> asked{0}, cancelled{0};
  std::vector<std::byte> into;
};

INSTANTIATE_TEST_SUITE_P(Backends, PartialAnswersTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(PartialAnswersTest, PartsComeInAnyOrder) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 2, 2, false);
    sendPart(peer, id, 0, 1, false);
    sendPart(peer, id, 1, 1, true);
  });
  for (int i = 0; i < 3; ++i) {  // checksums are compared by the node, too
    const Status status = read();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(into, bytes);
  }
}

TEST_P(PartialAnswersTest, OneLastPartIsAWholeAnswer) {
  start([this](RawPeer& peer, std::uint64_t id) { sendPart(peer, id, 0, 4, true); });
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(into, bytes);
}

TEST_P(PartialAnswersTest, PartsThatOverlapAreRefused) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 0, 2, false);
    sendPart(peer, id, 1, 3, true);
  });
  const Status status = read();
  EXPECT_EQ(status.code(), ErrorCode::kProtocolError);
  EXPECT_THAT(status.error().message, HasSubstr("parts that do not fit"));
}

TEST_P(PartialAnswersTest, ALastPartThatLeavesAHoleIsRefused) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 0, 1, false);
    sendPart(peer, id, 2, 2, true);
  });
  EXPECT_EQ(read().code(), ErrorCode::kProtocolError);
}

TEST_P(PartialAnswersTest, AWholeAnswerAfterAPartIsRefused) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 0, 1, false);
    ReadAnswer whole{.payloadLength = kPartialLength,
                     .blockChecksums = crc32cOfBlocks(bytes, kBlockBytes)};
    peer.send(encodeFrame(whole, id));
    peer.send(bytes);
  });
  EXPECT_EQ(read().code(), ErrorCode::kProtocolError);
}

TEST_P(PartialAnswersTest, PartsThatWereNotAgreedOnAreRefused) {
  start([this](RawPeer& peer, std::uint64_t id) { sendPart(peer, id, 0, 4, true); }, 0);
  EXPECT_EQ(read().code(), ErrorCode::kProtocolError);
}

TEST_P(PartialAnswersTest, AnErrorAfterAPartEndsTheRequestAndTheConnectionGoesOn) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 0, 1, false);
    if (++asked > 1) return sendPart(peer, id, 1, 3, true);
    ReadAnswer gone;
    gone.code = ErrorCode::kTryElsewhere;
    gone.sentence = "evicted";
    peer.send(encodeFrame(gone, id));
  });
  EXPECT_EQ(read().code(), ErrorCode::kTryElsewhere);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(into, bytes);
}

TEST_P(PartialAnswersTest, ABadPartIsCorruptAndTheRestIsPassedOver) {
  start([this](RawPeer& peer, std::uint64_t id) {
    const bool good = ++asked > 2;  // the transport tries twice
    sendPart(peer, id, 0, 1, false, good);
    sendPart(peer, id, 1, 3, true);
  });
  EXPECT_EQ(read().code(), ErrorCode::kCorrupt);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(into, bytes);
}

TEST_P(PartialAnswersTest, AStallBetweenPartsEndsAtTheDeadlineAndWritesNothingMore) {
  start([this](RawPeer& peer, std::uint64_t id) {
    sendPart(peer, id, 0, 1, false);
    while (!late && !ended) std::this_thread::sleep_for(1ms);
    sendPart(peer, id, 1, 3, true);
  });
  into.assign(kPartialLength, std::byte{0});
  EXPECT_EQ(asker->read("asked", kPlain, 0, into, 100ms).code(), ErrorCode::kDeadlineExceeded);
  std::fill(into.begin(), into.end(), std::byte{0x5a});
  late = true;
  // The next request on the connection is answered behind the late part.
  std::vector<std::byte> other(kPartialLength);
  EXPECT_TRUE(asker->read("asked", kPlain, 0, other).ok());
  EXPECT_EQ(other, bytes);
  EXPECT_EQ(into, std::vector<std::byte>(kPartialLength, std::byte{0x5a}));
}

// The peer sends half a part and says so, and sends the rest when the asker gives up.
TEST_P(PartialAnswersTest, CancelsAReadGivenUpInTheMiddleOfAPart) {
  start([&](RawPeer& peer, std::uint64_t id) {
    if (++asked != 2) return sendPart(peer, id, 0, 4, true);
    const auto part = std::span<const std::byte>(bytes).first(2 * kBlockBytes);
    peer.send(encodeFrame(ReadAnswer{.payloadLength = static_cast<std::uint32_t>(part.size()),
                                     .blockChecksums = crc32cOfBlocks(part, kBlockBytes),
                                     .part = AnswerPart{0, false}},
                          id));
    peer.send(part.first(kBlockBytes));
    const std::optional<RawPeer::Got> said = peer.frame();
    if (!said || said->header.type != FrameType::kCancel || said->header.requestId != id) return;
    ++cancelled;
    peer.send(part.subspan(kBlockBytes));
    ReadAnswer withdrawn;
    withdrawn.code = ErrorCode::kCancelled;
    peer.send(encodeFrame(withdrawn, id));
  });
  ASSERT_TRUE(read().ok()) << "it is connected";
  into.assign(kPartialLength, std::byte{0});
  EXPECT_EQ(asker->read("asked", kPlain, 0, into, 100ms).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(eventually([&] { return cancelled == 1; }));
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(into, bytes);
}

// The rest of an answer with a bad block is of no use.
TEST_P(PartialAnswersTest, ABadPartCancelsTheOthers) {
  start([&](RawPeer& peer, std::uint64_t id) {
    if (++asked > 1) return sendPart(peer, id, 0, 4, true);
    sendPart(peer, id, 0, 1, false, false);
    // The second try comes on this connection, too.
    for (bool answered = false; !answered || cancelled == 0;) {
      const std::optional<RawPeer::Got> said = peer.frame();
      if (!said) return;
      if (said->header.type == FrameType::kReadRequest) {
        sendPart(peer, said->header.requestId, 0, 4, true);
        answered = true;
      } else if (said->header.type == FrameType::kCancel && said->header.requestId == id) {
        ++cancelled;
        ReadAnswer withdrawn;
        withdrawn.code = ErrorCode::kCancelled;
        peer.send(encodeFrame(withdrawn, id));
      }
    }
  });
  EXPECT_TRUE(read().ok());
  EXPECT_TRUE(eventually([&] { return cancelled == 1; }));
}

}  // namespace
}  // namespace hearth
