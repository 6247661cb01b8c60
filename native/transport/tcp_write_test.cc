// Writes over TCP: what is taken and what is refused, which memory is used when, and that neither
// reads nor writes wait for the other's credit.
#include <gtest/gtest.h>

#include <map>

#include "transport/peer.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

// Takes writes into memory that is bounded, and knows what landed.
class TakingHandler final : public PeerHandler {
 public:
  TakingHandler(Reactor& reactor, std::uint64_t room) : read_(reactor), room_(reactor, room) {}

  Task<Result<BytesAnswer>> onRead(std::string from, ContentKey key, std::uint64_t offset,
                                   std::uint32_t length, Interest interest) override {
    return read_.onRead(std::move(from), key, offset, length, std::move(interest));
  }
  Task<Result<BytesAnswer>> onReadManifest(std::string from, Sha256Digest digest,
                                           std::uint64_t offset, std::uint32_t length) override {
    return read_.onReadManifest(std::move(from), digest, offset, length);
  }
  Task<Result<ControlMessage>> onControl(std::string from, ControlMessage request) override {
    return read_.onControl(std::move(from), std::move(request));
  }
  Task<Result<std::unique_ptr<WriteSink>>> onWrite(std::string, WriteRequest request,
                                                   Interest) override {
    ++asked;
    co_await room_.acquire(request.length);
    used += request.length;
    most = std::max<std::uint64_t>(most, used);
    co_return std::make_unique<Sink>(*this, request);
  }

  std::map<std::uint64_t, std::vector<std::byte>> landed;  // by offset
  std::atomic<int> asked{0}, failed{0};
  std::atomic<std::uint64_t> used{0}, most{0};
  TestHandler read_;

 private:
  class Sink final : public WriteSink {
   public:
    Sink(TakingHandler& owner, const WriteRequest& request)
        : owner_(owner), offset_(request.offset), bytes_(request.length) {
      memory_ = MemorySlice::of(bytes_);
    }
    ~Sink() override {
      owner_.failed += taken_ ? 0 : 1;
      owner_.used -= bytes_.size();
      owner_.room_.release(bytes_.size());
    }
    const MemoryVector& memory() const override { return memory_; }
    Task<Status> landed(std::vector<std::uint32_t> blockChecksums) override {
      EXPECT_EQ(blockChecksums, crc32cOfBlocks(bytes_, kBlockBytes));
      owner_.landed[offset_] = bytes_;
      taken_ = true;
      co_return Status();
    }

   private:
    TakingHandler& owner_;
    const std::uint64_t offset_;
    std::vector<std::byte> bytes_;
    MemoryVector memory_;
    bool taken_ = false;
  };

  Semaphore room_;
};

// An agent that takes writes, beside the TestNode whose reactor and thread it uses.
class TakingNode {
 public:
  TakingNode(TransportOptions options, Reactor::Backend backend, std::uint64_t room = 64u << 20)
      : node(options, backend), handler(*node.reactor, room) {
    options.offer.features = kWireFeaturesWithWrites;
    node.post([&] {
      transport = PeerTransport::create(*node.reactor, options, handler);
      node.adopter = transport.get();
    });
  }
  ~TakingNode() {
    node.post([this] { handler.read_.released.set(); });
    node.await([this] { return transport->close(); });
    node.close();
  }
  Status write(const std::string& to, std::uint64_t offset, std::span<std::byte> bytes,
               std::uint64_t generation = 1, Clock::duration patience = 20s) {
    return node.await([&] {
      return transport->write(to, ContentKey(), offset, generation, MemorySlice::of(bytes),
                              Clock::now() + patience, RequestClass::kDemand);
    });
  }

  TestNode node;
  TakingHandler handler;
  std::unique_ptr<PeerTransport> transport;
};

class TcpWriteTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  std::vector<std::byte> bytes = patternBytes(kChunkBytes);
};
INSTANTIATE_TEST_SUITE_P(Backends, TcpWriteTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(TcpWriteTest, WhatIsWrittenLandsWhole) {
  TakingNode asked(TestNode::optionsOf("asked"), GetParam());
  TakingNode asker(TestNode::optionsOf("asker"), GetParam());
  asker.node.post([&] { asker.transport->setPeers({asked.node.identity()}); });
  for (const std::size_t size : {std::size_t{1}, kBlockBytes, 5 * kBlockBytes + 7, kChunkBytes}) {
    const Status status = asker.write("asked", 0, std::span(bytes).first(size));
    ASSERT_TRUE(status.ok()) << status.error().message;
    asked.node.post([&] {
      EXPECT_TRUE(std::ranges::equal(asked.handler.landed[0], std::span(bytes).first(size)));
    });
  }
}

TEST_P(TcpWriteTest, AnAgentThatTakesNoneIsSentNoByte) {
  TransportOptions offering = TestNode::optionsOf("asked");
  offering.offer.features = kWireFeaturesWithWrites;
  TestNode asked(std::move(offering), GetParam());
  TestNode old(TestNode::optionsOf("older"), GetParam());
  TakingNode asker(TestNode::optionsOf("asker"), GetParam());
  asker.node.post([&] { asker.transport->setPeers({asked.identity(), old.identity()}); });
  for (const char* const to : {"asked", "older"}) {
    EXPECT_EQ(asker.write(to, 0, bytes).code(), ErrorCode::kUnsupported) << to;
    std::uint64_t sent = 0;
    asker.node.post([&] {
      for (const PeerStatistics& each : asker.transport->statistics()) sent += each.bytesSent;
    });
    EXPECT_LT(sent, kBlockBytes) << to;
  }
}

// Neither has credit, or memory, for more than a block at a time.
TEST_P(TcpWriteTest, TwoThatReadFromAndWriteToEachOtherMakeProgress) {
  const auto narrow = [](const char* name) {
    TransportOptions options = TestNode::optionsOf(name);
    options.creditBytes = kBlockBytes;
    options.writeCreditBytes = kBlockBytes;
    return options;
  };
  TakingNode a(narrow("a"), GetParam(), 2 * kBlockBytes);
  TakingNode b(narrow("b"), GetParam(), 2 * kBlockBytes);
  a.node.post([&] { a.transport->setPeers({b.node.identity()}); });
  b.node.post([&] { b.transport->setPeers({a.node.identity()}); });
  static const auto all = [](TakingNode& from, std::string to, std::vector<std::byte>& source,
                             std::vector<std::byte>& into, int& ok) -> Task<bool> {
    Gate gate(*from.node.reactor);
    static const auto one = [](PeerTransport& transport, std::string node, int i,
                               std::vector<std::byte>& out, std::vector<std::byte>& in,
                               int& done) -> Task<void> {
      const std::size_t at = static_cast<std::size_t>(i) * kBlockBytes;
      std::vector<std::uint32_t> checksums;
      Task<Status> moving =
          i % 2 == 0 ? transport.write(node, ContentKey(), at, 1,
                                       MemorySlice::of(std::span(out).subspan(at, kBlockBytes)),
                                       Clock::now() + 300s, RequestClass::kDemand)
                     : transport.read(node, keyOf(kPlain), at,
                                      MemorySlice::of(std::span(in).subspan(at, kBlockBytes)),
                                      checksums, Clock::now() + 300s, RequestClass::kDemand);
      const Status status = co_await moving;
      done += status.ok() ? 1 : 0;
    };
    for (int i = 0; i < 64; ++i) gate.spawn(one(*from.transport, to, i, source, into, ok));
    co_await gate.close();
    co_return true;
  };
  std::vector<std::byte> intoA(kChunkBytes), intoB(kChunkBytes);
  int okA = 0, okB = 0;
  std::thread other([&] { b.node.await([&] { return all(b, "a", bytes, intoB, okB); }); });
  a.node.await([&] { return all(a, "b", bytes, intoA, okA); });
  other.join();
  EXPECT_EQ(okA, 64);
  EXPECT_EQ(okB, 64);
  EXPECT_LE(a.handler.most, 2 * kBlockBytes);
  EXPECT_LE(b.handler.most, 2 * kBlockBytes);
}

// From here on the asker is played, so that its writes fail as the test wants.
std::vector<std::byte> requestOf(std::uint64_t id, std::uint64_t generation,
                                 std::uint32_t length = 2 * kBlockBytes) {
  return encodeFrame(WriteRequest{.length = length, .patienceMs = 60'000, .generation = generation},
                     id);
}
void sendBlock(RawPeer& peer, std::uint64_t id, std::size_t block, std::span<const std::byte> bytes,
               bool good = true) {
  const auto part = bytes.subspan(block * kBlockBytes, kBlockBytes);
  WriteData data{static_cast<std::uint32_t>(block * kBlockBytes), kBlockBytes,
                 crc32cOfBlocks(part, kBlockBytes)};
  if (!good) data.blockChecksums.front() ^= 1;
  peer.send(encodeFrame(data, id));
  peer.send(part);
}
bool joins(RawPeer& peer, const char* node = "writer") {
  Hello hello{"test", node, "1", randomNonce()};
  hello.features = kWireFeaturesWithWrites;
  return peer.join(encodeFrame(hello)).has_value();
}
bool expectReady(RawPeer& peer) {
  const auto got = peer.frame();
  return got && got->header.type == FrameType::kWriteReady;
}

TEST_P(TcpWriteTest, ABadBlockIsAnsweredCorruptAndNeverLands) {
  TakingNode asked(TestNode::optionsOf("asked"), GetParam());
  RawPeer peer(asked.node.identity().addresses[0]);
  ASSERT_TRUE(joins(peer));
  ASSERT_TRUE(peer.send(requestOf(1, 1)));
  ASSERT_TRUE(expectReady(peer));
  sendBlock(peer, 1, 0, bytes, false);
  const std::optional<WriteAnswer> answer = peer.expect<WriteAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code, ErrorCode::kCorrupt);
  sendBlock(peer, 1, 1, bytes);  // was on its way
  ASSERT_TRUE(peer.send(requestOf(2, 2)));
  ASSERT_TRUE(expectReady(peer));
  EXPECT_EQ(asked.handler.failed, 1);
  asked.node.post([&] { EXPECT_TRUE(asked.handler.landed.empty()); });
}

// The first one stalls in the middle of its payload; the newer one, on another connection, gets
// memory only when the first touches its own no more.
TEST_P(TcpWriteTest, ANewerWriteWinsAndALateOneChangesNothing) {
  TakingNode asked(TestNode::optionsOf("asked"), GetParam());
  RawPeer late(asked.node.identity().addresses[0]), newer(asked.node.identity().addresses[0]);
  ASSERT_TRUE(joins(late) && joins(newer));
  ASSERT_TRUE(late.send(requestOf(1, 1)));
  ASSERT_TRUE(expectReady(late));
  sendBlock(late, 1, 0, bytes);
  ASSERT_TRUE(newer.send(requestOf(1, 2)));
  const std::optional<WriteAnswer> lost = late.expect<WriteAnswer>();
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->code, ErrorCode::kConflict);
  ASSERT_TRUE(expectReady(newer));
  const auto other = std::span<const std::byte>(bytes).subspan(8 * kBlockBytes);
  sendBlock(newer, 1, 0, other);
  sendBlock(late, 1, 1, bytes);
  sendBlock(newer, 1, 1, other);
  const std::optional<WriteAnswer> won = newer.expect<WriteAnswer>();
  ASSERT_TRUE(won.has_value());
  EXPECT_EQ(won->code, ErrorCode::kOk);
  asked.node.post([&] {
    EXPECT_TRUE(std::ranges::equal(asked.handler.landed[0], other.first(2 * kBlockBytes)));
  });
  EXPECT_EQ(asked.handler.failed, 1);
}

// Whichever of them asks first: the bytes of the greater name stay.
TEST_P(TcpWriteTest, OfTwoNodesWithOneGenerationTheSameOneWins) {
  for (const bool greaterFirst : {false, true}) {
    TakingNode asked(TestNode::optionsOf("asked"), GetParam());
    RawPeer first(asked.node.identity().addresses[0]), second(asked.node.identity().addresses[0]);
    ASSERT_TRUE(joins(first, greaterFirst ? "node-b" : "node-a"));
    ASSERT_TRUE(joins(second, greaterFirst ? "node-a" : "node-b"));
    ASSERT_TRUE(first.send(requestOf(1, 7)) && expectReady(first));
    ASSERT_TRUE(second.send(requestOf(1, 7)));
    RawPeer& winner = greaterFirst ? first : second;
    const std::optional<WriteAnswer> lost = (greaterFirst ? second : first).expect<WriteAnswer>();
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->code, ErrorCode::kConflict);
    ASSERT_TRUE(greaterFirst || expectReady(winner));
    for (const std::size_t block : {std::size_t{0}, std::size_t{1}})
      sendBlock(winner, 1, block, bytes);
    const std::optional<WriteAnswer> won = winner.expect<WriteAnswer>();
    ASSERT_TRUE(won.has_value());
    EXPECT_EQ(won->code, ErrorCode::kOk);
  }
}

TEST_P(TcpWriteTest, BytesBeforeTheyAreWaitedForEndTheConnection) {
  TakingNode asked(TestNode::optionsOf("asked"), GetParam(), kBlockBytes);
  RawPeer peer(asked.node.identity().addresses[0]);
  ASSERT_TRUE(joins(peer));
  sendBlock(peer, 1, 0, bytes);
  EXPECT_TRUE(peer.closed());
}

TEST_P(TcpWriteTest, ACancelBeforeTheEndIsAnsweredAndGivesTheMemoryBack) {
  TakingNode asked(TestNode::optionsOf("asked"), GetParam());
  RawPeer peer(asked.node.identity().addresses[0]);
  ASSERT_TRUE(joins(peer));
  ASSERT_TRUE(peer.send(requestOf(1, 1)));
  ASSERT_TRUE(expectReady(peer));
  sendBlock(peer, 1, 0, bytes);
  ASSERT_TRUE(peer.send(encodeEmptyFrame(FrameType::kCancel, 1)));
  const std::optional<WriteAnswer> answer = peer.expect<WriteAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code, ErrorCode::kCancelled);
  EXPECT_EQ(asked.handler.used, 0u);
}

}  // namespace
}  // namespace hearth
