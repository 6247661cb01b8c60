// A TCP connection as a rail: requests that are cancelled, wherever they are.
#include <gtest/gtest.h>

#include <thread>

#include "transport/limits.h"
#include "transport/peer.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

class TcpRailTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void connect(PeerIdentity identity) {
    peer = std::make_shared<Peer>(*reactor, *gate, dialler, std::move(identity), 1, 0,
                                  std::make_shared<PeerStatistics>());
    const Result<std::shared_ptr<Rail>> picked =
        reactor->runUntilComplete(peer->rail(nullptr, Clock::now() + kHang));
    ASSERT_TRUE(picked.ok()) << picked.error().message;
    rail = *picked;
  }
  void TearDown() override {
    if (peer) peer->leave({ErrorCode::kCancelled, "the test ends"});
    dialler.close();
    reactor->runUntilComplete(closed(*gate));
  }
  static Task<bool> closed(Gate& gate) {
    co_await gate.close();
    co_return true;
  }
  static Task<bool> slept(Reactor& reactor, Clock::duration time) {
    co_await reactor.sleep(time);
    co_return true;
  }
  std::shared_ptr<RailRequest> post(Behaviour behaviour, std::size_t size = kBlockBytes) {
    auto memory = std::make_shared<std::vector<std::byte>>(size);
    return post(behaviour, MemorySlice::of(*memory, memory));
  }
  std::shared_ptr<RailRequest> post(Behaviour behaviour, MemoryVector into) {
    RailTransfer read{
        .key = keyOf(behaviour), .memory = std::move(into), .timeouts = Clock::now() + 1h};
    RailRequest::Posted posted = RailRequest::create(*reactor, std::move(read));
    std::vector<std::unique_ptr<RailWork>> batch;
    batch.push_back(std::move(posted.work));
    rail->post(std::move(batch));
    return posted.request;
  }
  // Long before its own time has come.
  bool released(const std::shared_ptr<RailRequest>& request) {
    return reactor->runUntilComplete(request->awaitReleased(Clock::now() + kHang));
  }
  template <class Condition>
  bool turnUntil(Condition condition) {
    return eventually(
        [&] { return reactor->runUntilComplete(slept(*reactor, 1ms)) && condition(); });
  }
  void expectReadable() {
    const std::shared_ptr<RailRequest> request = post(kPlain);
    EXPECT_TRUE(released(request));
    EXPECT_TRUE(request->outcome().status.ok());
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create(GetParam()));
  std::unique_ptr<Gate> gate = std::make_unique<Gate>(*reactor);
  TransportOptions options = TestNode::optionsOf("asker");
  Dialler dialler{*reactor, *gate, options};
  std::shared_ptr<Peer> peer;
  std::shared_ptr<Rail> rail;
};

INSTANTIATE_TEST_SUITE_P(Backends, TcpRailTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(TcpRailTest, ABatchIsAnsweredOneByOne) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  const auto stuck = post(kStuck), absent = post(kAbsent), plain = post(kPlain, 3 * kBlockBytes);
  EXPECT_TRUE(released(plain));
  EXPECT_TRUE(plain->outcome().status.ok());
  EXPECT_TRUE(std::ranges::equal(
      plain->checksums(),
      crc32cOfBlocks(std::span(asked.handler->chunk).first(3 * kBlockBytes), kBlockBytes)));
  EXPECT_TRUE(released(absent));
  EXPECT_EQ(absent->outcome().status.code(), ErrorCode::kTryElsewhere);
  EXPECT_TRUE(absent->outcome().answered);
  EXPECT_FALSE(stuck->settled());
  EXPECT_EQ(rail->load(), kBlockBytes);
}

// Behind large transfers it would wait for slices of theirs.
TEST_P(TcpRailTest, SmallTransfersHaveAStreamWhileOthersAreBusy) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  EXPECT_EQ(peer->usableRails(kSmallTransferBytes).size(), 1u) << "nothing is busy";
  const auto stuck = post(kStuck);
  EXPECT_TRUE(turnUntil([&] { return peer->usableRails(kSmallTransferBytes).size() == 2; }));
  EXPECT_EQ(peer->usableRails(kSmallTransferBytes + 1).size(), 1u);
  EXPECT_EQ(peer->usableRails(kSmallTransferBytes).back()->load(), 0u);
  EXPECT_FALSE(stuck->settled());
  EXPECT_EQ(peer->readyStreams(), 1u) << "it is none for payloads";
}

// Pieces that end inside blocks, more of them than one system call fills, and one that is large.
TEST_P(TcpRailTest, FillsScatteredPiecesInOrder) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  const auto memory = std::make_shared<std::vector<std::byte>>(kChunkBytes);
  const auto region = MemoryRegion::host(*memory, memory);
  std::vector<MemorySlice> slices;
  for (std::uint64_t at = 0, size = 1; at < kChunkBytes; at += size, size = size % 9'000 + 977) {
    if (at > kChunkBytes / 2) size = kChunkBytes;
    slices.push_back({region, at, std::min<std::uint64_t>(size, kChunkBytes - at)});
  }
  ASSERT_GT(slices.size(), 200u);
  const auto request = post(kPlain, MemoryVector(std::move(slices)));
  EXPECT_TRUE(released(request));
  EXPECT_TRUE(request->outcome().status.ok());
  EXPECT_TRUE(std::ranges::equal(*memory, asked.handler->chunk));
  EXPECT_TRUE(std::ranges::equal(request->checksums(), crc32cOfBlocks(*memory, kBlockBytes)));
}

TEST_P(TcpRailTest, MemoryOfAGpuIsRefusedAndTheConnectionStays) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  const auto gpu = MemoryRegion::gpu(4096, kBlockBytes, nullptr);
  const auto request = post(kPlain, MemorySlice{gpu, 0, kBlockBytes});
  EXPECT_TRUE(released(request));
  EXPECT_EQ(request->outcome().status.code(), ErrorCode::kUnsupported);
  EXPECT_FALSE(request->outcome().answered) << "another rail may reach it";
  EXPECT_EQ(rail->load(), 0u);
  expectReadable();
}

TEST_P(TcpRailTest, CancelsAWaitForAnAnswerAtOnce) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  const auto stuck = post(kStuck);
  ASSERT_TRUE(turnUntil([&] { return asked.handler->reads == 1; }));
  EXPECT_FALSE(stuck->cancel()) << "the connection hears of it in its next turn";
  EXPECT_EQ(stuck->outcome().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(released(stuck));
  EXPECT_EQ(rail->load(), 0u);
  expectReadable();
  EXPECT_TRUE(rail->usable());
}

TEST_P(TcpRailTest, CancelsAWaitForCreditWhichTakesNone) {
  TransportOptions narrow = TestNode::optionsOf("asked");
  narrow.creditBytes = kBlockBytes;
  TestNode asked(std::move(narrow));
  connect(asked.identity());
  expectReadable();  // the credit has come
  const auto first = post(kStuck), second = post(kStuck);
  ASSERT_TRUE(turnUntil([&] { return asked.handler->reads == 2; }));
  second->cancel();
  EXPECT_TRUE(released(second));
  EXPECT_FALSE(first->settled());
  EXPECT_EQ(asked.handler->reads, 2) << "the second never set out";
  asked.post([&] { asked.handler->released.set(); });
  EXPECT_TRUE(released(first));
  EXPECT_TRUE(first->outcome().status.ok());
  expectReadable();
}

// The rail holds the memory until its reader has stopped; a stalled peer costs the connection for
// that.
TEST_P(TcpRailTest, ReleasesMemoryBeingFilledSoonAfterACancel) {
  RawAcceptor acceptor;
  std::atomic<bool> cancelled{false};
  std::thread halfway([&] {
    RawPeer raw = acceptor.accept();
    ASSERT_TRUE(raw.welcome("asked"));
    const std::optional<RawPeer::Got> request = raw.frame();
    ASSERT_TRUE(request.has_value());
    ReadAnswer answer;
    answer.payloadLength = kBlockBytes;
    const std::vector<std::byte> payload = patternBytes(kBlockBytes);
    answer.blockChecksums = crc32cOfBlocks(payload, kBlockBytes);
    raw.send(encodeFrame(answer, request->header.requestId));
    raw.send(std::span(payload).first(1000));
    EXPECT_TRUE(eventually([&] { return cancelled.load(); }));
    EXPECT_TRUE(raw.closed());
  });
  connect(acceptor.identity("asked"));
  const auto memory = std::make_shared<std::vector<std::byte>>(kBlockBytes);
  const auto request = post(kPlain, MemorySlice::of(*memory, memory));
  ASSERT_TRUE(turnUntil([&] { return memory->front() == patternBytes(1).front(); }));
  EXPECT_FALSE(request->cancel()) << "bytes are coming into its memory";
  EXPECT_EQ(request->outcome().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(released(request));
  EXPECT_FALSE(rail->usable());
  cancelled = true;
  halfway.join();
}

TEST_P(TcpRailTest, AConnectionThatHasEndedSettlesWhatIsPosted) {
  TestNode asked(TestNode::optionsOf("asked"));
  connect(asked.identity());
  const auto stuck = post(kStuck);
  peer->leave({ErrorCode::kUnavailable, "asked has left"});
  const auto late = post(kPlain);
  for (const auto& request : {stuck, late}) {
    EXPECT_TRUE(released(request));
    EXPECT_EQ(request->outcome().status.code(), ErrorCode::kUnavailable);
    EXPECT_FALSE(request->outcome().answered);
  }
}

}  // namespace
}  // namespace hearth
