// Writes over TCP: which are taken and which refused, which memory is used when, and that neither
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
  TakingHandler(Reactor& reactor, std::uint64_t bytes) : room(reactor, bytes), read_(reactor) {}

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
    requests.push_back(request);
    ++asked;
    co_await room.acquire(request.length);
    used += request.length;
    co_return std::make_unique<Sink>(*this, request);
  }

  Semaphore room;                                          // bytes, also of who uses the handler
  std::vector<WriteRequest> requests;                      // in the order in which they came
  std::map<std::uint64_t, std::vector<std::byte>> landed;  // by offset
  std::atomic<int> asked{0}, failed{0};
  std::atomic<std::uint64_t> used{0};
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
      owner_.room.release(bytes_.size());
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
               std::optional<MemoryDescriptor> target = std::nullopt) {
    return node.await([&] {
      return transport->write(to, ContentKey(), offset, 1, target, MemorySlice::of(bytes),
                              Clock::now() + kHang, RequestClass::kDemand);
    });
  }
  Status read(const std::string& from, std::uint64_t offset, std::span<std::byte> into) {
    std::vector<std::uint32_t> checksums;
    return node.await([&] {
      return transport->read(from, keyOf(kPlain), offset, MemorySlice::of(into), checksums,
                             Clock::now() + kHang, RequestClass::kDemand);
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

TEST_P(TcpWriteTest, AWriteLandsWhole) {
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

TEST_P(TcpWriteTest, SendsNoByteToAnAgentThatTakesNoWrites) {
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

// A window of the other side's memory, as it describes it to the writer.
TEST_P(TcpWriteTest, SendsEachSliceWithItsPartOfTheTarget) {
  TransportOptions options = TestNode::optionsOf("asker");
  options.streamsPerPeer = 2;
  TakingNode asked(TestNode::optionsOf("asked"), GetParam());
  TakingNode asker(options, GetParam());
  asker.node.post([&] { asker.transport->setPeers({asked.node.identity()}); });
  const auto streams = [&] {
    std::uint32_t ready = 0;
    asker.node.post([&] { ready = asker.transport->statistics().front().streams; });
    return ready;
  };
  ASSERT_TRUE(eventually(
      [&] { return asker.write("asked", 0, std::span(bytes).first(1)).ok() && streams() == 2; }));
  asked.node.post([&] { asked.handler.requests.clear(); });
  const MemoryDescriptor window{MemoryKind::kHost, 1000, 7, 3, 1u << 30, kChunkBytes, {{1, 99}}};
  ASSERT_TRUE(asker.write("asked", 0, bytes, window).ok());
  asked.node.post([&] {
    ASSERT_EQ(asked.handler.requests.size(), 2u);
    for (const WriteRequest& request : asked.handler.requests) {
      MemoryDescriptor part = window;
      part.address += request.offset;
      part.length = kChunkBytes / 2;
      EXPECT_EQ(request.target, part) << request.offset;
    }
  });
  // One that is too short, and one of a kind that no agent knows.
  for (const MemoryDescriptor& wrong :
       {MemoryDescriptor{MemoryKind::kHost, 1, 1, 1, 1, kChunkBytes - 1, {}},
        MemoryDescriptor{MemoryKind::kUnknown, 1, 1, 1, 1, kChunkBytes, {}}})
    EXPECT_EQ(asker.write("asked", 0, bytes, wrong).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(asker.write("asked", 0, std::span(bytes).first(1)).ok());
}

// Two agents that read from and write to each other. Each has memory for one block, which its own
// read has until it ends, and for which the other's writes wait; and each gives the other credit
// for one block. If reads and writes shared that credit, the writes would hold it until the reads
// ended, and the reads could not begin.
TEST_P(TcpWriteTest, ReadsEndWhileWritesBothWaysWaitForTheMemoryOfReads) {
  const auto narrow = [](const char* name) {
    TransportOptions options = TestNode::optionsOf(name);
    options.creditBytes = kBlockBytes;
    options.writeCreditBytes = kBlockBytes;
    return options;
  };
  TakingNode a(narrow("a"), GetParam(), kBlockBytes);
  TakingNode b(narrow("b"), GetParam(), kBlockBytes);
  a.node.post([&] { a.transport->setPeers({b.node.identity()}); });
  b.node.post([&] { b.transport->setPeers({a.node.identity()}); });
  for (TakingNode* const each : {&a, &b})
    each->node.post([each] { ASSERT_TRUE(each->handler.room.tryAcquire(kBlockBytes)); });
  std::vector<std::byte> fromA = bytes, fromB = bytes;
  Status wroteA, wroteB;
  std::thread writesA([&] { wroteA = a.write("b", 0, std::span(fromA).first(kBlockBytes)); });
  std::thread writesB([&] { wroteB = b.write("a", 0, std::span(fromB).first(kBlockBytes)); });
  EXPECT_TRUE(eventually([&] { return a.handler.asked == 1 && b.handler.asked == 1; }));
  for (TakingNode* const each : {&a, &b}) {
    std::vector<std::byte> into(kBlockBytes);
    const Status read = each->read(each == &a ? "b" : "a", 0, into);
    EXPECT_TRUE(read.ok()) << read.error().message;
    each->node.post([each] { each->handler.room.release(kBlockBytes); });
  }
  writesA.join();
  writesB.join();
  EXPECT_TRUE(wroteA.ok()) << wroteA.error().message;
  EXPECT_TRUE(wroteB.ok()) << wroteB.error().message;
}

// From here on the test plays the asker, so that its writes fail as the test wants.
std::vector<std::byte> requestOf(std::uint64_t id, std::uint64_t generation,
                                 std::uint32_t length = 2 * kBlockBytes) {
  return encodeFrame(WriteRequest{.length = length, .timeoutMs = 60'000, .generation = generation},
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

// The first write stalls in the middle of its payload; the newer one, on another connection, gets
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

// The bytes of the greater name stay, whichever node asks first.
TEST_P(TcpWriteTest, TheGreaterNameWinsWithEqualGenerations) {
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
