#include "transport/tcp_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/limits.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

class TransportTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  // A node that answers, and one that asks with so many streams.
  void start(std::uint32_t streams = 1, std::uint32_t creditBytes = 64u << 20,
             std::vector<std::string> hosts = {"127.0.0.1"}) {
    TransportOptions askedOptions = TestNode::optionsOf("asked");
    askedOptions.creditBytes = creditBytes;
    asked = std::make_unique<TestNode>(askedOptions, GetParam(), hosts);
    TransportOptions askerOptions = TestNode::optionsOf("asker");
    askerOptions.streamsPerPeer = streams;
    asker = std::make_unique<TestNode>(askerOptions, GetParam());
    asker->setPeers({asked->identity()});
  }
  std::unique_ptr<TestNode> asked, asker;
};

INSTANTIATE_TEST_SUITE_P(Backends, TransportTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(TransportTest, ReadsRangesOfAChunk) {
  start();
  const std::span<const std::byte> chunk(asked->handler->chunk);
  const std::pair<std::uint64_t, std::size_t> ranges[] = {
      {0, kChunkBytes}, {0, 1}, {kBlockBytes, 100'000}, {63 * kBlockBytes, kBlockBytes}, {0, 0}};
  for (const auto& [offset, size] : ranges) {
    std::vector<std::byte> into(size);
    const Status status = asker->read("asked", kPlain, 5 * kChunkBytes + offset, into);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(std::ranges::equal(into, chunk.subspan(offset, size)));
  }
  const PeerStatistics statistics = asker->statisticsOf("asked");
  EXPECT_TRUE(statistics.connected);
  EXPECT_EQ(statistics.streams, 1u);
  EXPECT_EQ(statistics.requests, 4u);
  EXPECT_GT(statistics.bytesReceived, kChunkBytes);
}

TEST_P(TransportTest, LooksForTheNextRequestAfterASmallAnswerAlone) {
  start();
  const auto looks = [&] { return asked->reactor->idleCounts().looks; };
  const auto sleepOften = [&] {
    const std::uint64_t before = asked->reactor->idleCounts().sleeps;
    EXPECT_TRUE(eventually([&] {
      asked->post([] {});
      return asked->reactor->idleCounts().sleeps >= before + 10;
    }));
  };
  std::vector<std::byte> large(kChunkBytes), small(4096);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, large).ok());
  sleepOften();
  EXPECT_EQ(looks(), 0u);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, small).ok());
  EXPECT_TRUE(eventually([&] { return looks() == 1; }));
  sleepOften();
  EXPECT_EQ(looks(), 1u) << "an idle agent does not look";
}

TEST_P(TransportTest, RefusesRangesThatNoPeerMayBeAskedFor) {
  start();
  std::vector<std::byte> into(kChunkBytes);
  EXPECT_EQ(asker->read("asked", kPlain, 1, into).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(asker->read("asked", kPlain, kBlockBytes, into).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(asker->read("unknown", kPlain, 0, into).code(), ErrorCode::kUnavailable);
}

TEST_P(TransportTest, PassesOnTheHandlersAnswer) {
  start();
  std::vector<std::byte> into(kBlockBytes);
  const Status status = asker->read("asked", kAbsent, 0, into);
  EXPECT_EQ(status.code(), ErrorCode::kTryElsewhere);
  EXPECT_THAT(status.error().message, HasSubstr("not here"));
  EXPECT_EQ(asked->handler->reads, 1);  // an answer is not tried again
  EXPECT_EQ(asker->read("asked", kWrongLength, 0, into).code(), ErrorCode::kInternal);
}

TEST_P(TransportTest, ReadsManifestsOfSeveralChunks) {
  start();
  const Result<std::vector<std::byte>> manifest = asker->await([&] {
    return asker->transport->readManifest("asked", asked->handler->manifestDigest,
                                          Clock::now() + kHang);
  });
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(*manifest, asked->handler->manifest);
  const Result<std::vector<std::byte>> absent = asker->await(
      [&] { return asker->transport->readManifest("asked", {}, Clock::now() + kHang); });
  EXPECT_EQ(absent.code(), ErrorCode::kNotFound);
}

TEST_P(TransportTest, CarriesControlMessages) {
  start();
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, kMaxControlBytes}) {
    const ControlMessage message{7, patternBytes(size)};
    const Result<ControlMessage> answer = asker->await(
        [&] { return asker->transport->call("asked", message, Clock::now() + kHang); });
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->type, 8);
    EXPECT_EQ(answer->body, message.body);
  }
  asked->post([&] { EXPECT_EQ(asked->handler->lastAsker, "asker"); });
  const Result<ControlMessage> failed = asker->await([&] {
    return asker->transport->call("asked", ControlMessage{99, {}}, Clock::now() + kHang);
  });
  EXPECT_EQ(failed.code(), ErrorCode::kOutOfSpace);
}

// Behind the payloads of a slow link a control message would come seconds late.
TEST_P(TransportTest, ControlMessagesHaveAStreamOfTheirOwn) {
  start();
  const auto answer = asker->await([&] {
    return asker->transport->call("asked", ControlMessage{7, {}}, Clock::now() + kHang);
  });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(asker->statisticsOf("asked").connected);
  EXPECT_EQ(asker->statisticsOf("asked").streams, 0u);
  std::vector<std::byte> into(kBlockBytes);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  EXPECT_EQ(asker->statisticsOf("asked").streams, 1u);
}

TEST_P(TransportTest, SpeaksIpv6AndSpreadsStreamsOverAddresses) {
  start(2, 64u << 20, {"127.0.0.1", "::1"});
  std::vector<std::byte> into(kChunkBytes);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  EXPECT_EQ(into, asked->handler->chunk);
  EXPECT_TRUE(asker->eventually("asked", [](const auto& entry) { return entry.streams == 2; }));
}

// Many requests at once from coroutines on the asker's thread.
Task<void> askOnce(TestNode& asker, std::size_t size, Behaviour behaviour, Clock::duration timeout,
                   std::map<ErrorCode, int>& outcomes) {
  std::vector<std::byte> into(size);
  std::vector<std::uint32_t> checksums;
  Task<Status> reading =
      asker.transport->read("asked", keyOf(behaviour), 0, MemorySlice::of(into), checksums,
                            Clock::now() + timeout, RequestClass::kDemand);
  const Status status = co_await reading;
  ++outcomes[status.code()];
}
Task<std::map<ErrorCode, int>> askMany(TestNode& asker, int count, std::size_t size,
                                       Behaviour behaviour, Clock::duration timeout) {
  std::map<ErrorCode, int> outcomes;
  Gate gate(*asker.reactor);
  for (int i = 0; i < count; ++i) {
    gate.spawn(askOnce(asker, size, behaviour, timeout, outcomes));
  }
  co_await gate.close();
  co_return outcomes;
}

TEST_P(TransportTest, AnswersThousandsOfConcurrentSmallRequests) {
  start(2);
  const auto outcomes = asker->await([&] { return askMany(*asker, 5000, 4096, kPlain, kHang); });
  EXPECT_EQ(outcomes, (std::map<ErrorCode, int>{{ErrorCode::kOk, 5000}}));
}

TEST_P(TransportTest, ExhaustedCreditDelaysAndNeverBlocks) {
  // Less credit than one request needs: one at a time.
  start(1, 1 << 20);
  const auto outcomes =
      asker->await([&] { return askMany(*asker, 40, kChunkBytes, kPlain, kHang); });
  EXPECT_EQ(outcomes, (std::map<ErrorCode, int>{{ErrorCode::kOk, 40}}));
}

TEST_P(TransportTest, RequestsWithoutCreditEndAtTheirDeadlineAndTheRestGoesOn) {
  start(1, 1 << 20);
  const auto stuck = asker->await([&] { return askMany(*asker, 20, 512 << 10, kStuck, 100ms); });
  EXPECT_EQ(stuck, (std::map<ErrorCode, int>{{ErrorCode::kDeadlineExceeded, 20}}));
  asked->post([&] { asked->handler->released.set(); });
  const auto outcomes = asker->await([&] { return askMany(*asker, 20, 512 << 10, kPlain, kHang); });
  EXPECT_EQ(outcomes, (std::map<ErrorCode, int>{{ErrorCode::kOk, 20}}));
}

TEST_P(TransportTest, LateAnswersAreDroppedAndTheConnectionStays) {
  start();
  std::vector<std::byte> into(kBlockBytes);
  EXPECT_EQ(asker->read("asked", kStuck, 0, into, 20ms).code(), ErrorCode::kDeadlineExceeded);
  asked->post([&] { asked->handler->released.set(); });
  EXPECT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  EXPECT_EQ(asker->statisticsOf("asked").error, "");
}

TEST_P(TransportTest, ShortDeadlinesAmongLargeAnswersNeverTouchReleasedMemory) {
  start(2);
  for (int i = 0; i < 10; ++i) {
    const auto outcomes = asker->await(
        [&] { return askMany(*asker, 12, kChunkBytes, kPlain, std::chrono::milliseconds(i)); });
    for (const auto& [code, count] : outcomes) {
      EXPECT_THAT(code, testing::AnyOf(ErrorCode::kOk, ErrorCode::kDeadlineExceeded));
    }
  }
  std::vector<std::byte> into(kChunkBytes);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  EXPECT_EQ(into, asked->handler->chunk);
}

TEST_P(TransportTest, DamagedBytesAreAskedForAgainAndNeverReturned) {
  start();
  std::vector<std::byte> into(kChunkBytes);
  EXPECT_TRUE(asker->read("asked", kBadOnce, 0, into).ok());
  EXPECT_EQ(asked->handler->reads, 2);
  EXPECT_EQ(asker->read("asked", kBadChecksum, 0, into).code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(asker->read("asked", kPlain, 0, into).ok());  // on the same connection
  EXPECT_EQ(asker->statisticsOf("asked").streams, 1u);
}

TEST_P(TransportTest, AnswersAfterTheConnectionHasGoneAreDropped) {
  start();
  std::vector<std::byte> into(kBlockBytes);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok()) << "it is connected";
  EXPECT_EQ(asker->read("asked", kStuck, 0, into, 50ms).code(), ErrorCode::kDeadlineExceeded);
  asker->setPeers({});
  EXPECT_TRUE(asked->eventually("asker", [](const auto& entry) { return !entry.error.empty(); }));
  asked->post([&] { asked->handler->released.set(); });
  asker->setPeers({asked->identity()});
  EXPECT_TRUE(asker->read("asked", kPlain, 0, into).ok());
}

TEST_P(TransportTest, CloseEndsRequestsInFlightAtBothEnds) {
  for (const bool closeAskerFirst : {true, false}) {
    start(2);
    auto promise = std::make_shared<std::promise<std::map<ErrorCode, int>>>();
    struct Drive {
      static Task<void> run(TestNode& asker,
                            std::shared_ptr<std::promise<std::map<ErrorCode, int>>> into) {
        std::map<ErrorCode, int> outcomes = co_await askMany(asker, 50, kChunkBytes, kStuck, kHang);
        into->set_value(outcomes);
      }
    };
    asker->post([&] { spawn(Drive::run(*asker, promise)); });
    EXPECT_TRUE(asker->eventually("asked", [](const auto& entry) { return entry.requests > 0; }));
    (closeAskerFirst ? asker : asked)->close();
    auto future = promise->get_future();
    ASSERT_EQ(future.wait_for(kHang), std::future_status::ready);
    int ended = 0;
    for (const auto& [code, count] : future.get()) ended += count;
    EXPECT_EQ(ended, 50);
    asker.reset();
    asked.reset();
  }
}

TEST_P(TransportTest, AfterCloseEverythingIsCancelled) {
  start();
  asker->close();
  std::vector<std::byte> into(kBlockBytes);
  EXPECT_EQ(asker->read("asked", kPlain, 0, into).code(), ErrorCode::kCancelled);
}

TEST_P(TransportTest, PeersThatLeaveAreDisconnected) {
  start();
  std::vector<std::byte> into(kBlockBytes);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  asker->setPeers({});
  EXPECT_EQ(asker->read("asked", kPlain, 0, into).code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(asked->eventually(
      "asker", [](const auto& entry) { return entry.error.find("goodbye") != std::string::npos; }));
}

TEST_P(TransportTest, AnotherIncarnationMeansAnotherConnection) {
  start();
  std::vector<std::byte> into(kBlockBytes);
  ASSERT_TRUE(asker->read("asked", kPlain, 0, into).ok());
  PeerIdentity restarted = asked->identity();
  restarted.incarnation = "2";
  asker->setPeers({restarted});
  const Status status = asker->read("asked", kPlain, 0, into);
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("out of date"));
  asker->setPeers({asked->identity()});
  EXPECT_TRUE(asker->read("asked", kPlain, 0, into).ok());
}

TEST_P(TransportTest, UnreachablePeersFailAtOnceWithTheReasonAndComeBack) {
  start();
  PeerIdentity nowhere = asked->identity();
  RawAcceptor closedPort;
  nowhere.addresses = {closedPort.address()};
  { const RawAcceptor gone = std::move(closedPort); }
  asker->setPeers({nowhere});
  std::vector<std::byte> into(kBlockBytes);
  const Status status = asker->read("asked", kPlain, 0, into);
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("refused"));
  asker->setPeers({asked->identity()});
  EXPECT_TRUE(asker->read("asked", kPlain, 0, into).ok());
}

TEST_P(TransportTest, ShardsMeetTheirNumber) {
  start();
  // The asked agent's second shard, on a reactor of its own; its listener hands over by the
  // preface.
  TestNode other(TestNode::optionsOf("asked"), GetParam());
  asked->post([&] { asked->adopter = other.transport.get(); });
  TransportOptions options = TestNode::optionsOf("third");
  options.shard = 1;
  options.shards = 2;
  TestNode third(options, GetParam());
  third.setPeers({asked->identity()});
  std::vector<std::byte> into(kChunkBytes);
  ASSERT_TRUE(third.read("asked", kPlain, 0, into).ok());
  EXPECT_EQ(asked->lastShard, 1u);
  EXPECT_EQ(other.handler->reads, 1);
  EXPECT_EQ(asked->handler->reads, 0);
}

}  // namespace
}  // namespace hearth
