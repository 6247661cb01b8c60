#include "fetch/byte_lanes.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "base/crc32c.h"
#include "fetch/file_fetch.h"
#include "origin/piece_sink.h"
#include "transport/testing/unreachable_transport.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 3 * kBlockBytes;  // two of them are large enough for a lane

// Fills all pieces with the number of its lane, and asks whether others want their memory until
// that is so.
class FillingOrigin final : public OriginClient {
 public:
  FillingOrigin(Reactor& reactor, int lane) : reactor_(reactor), lane_(lane) {}

  using OriginClient::fetch;
  Task<Status> fetch(Location, OriginExpectation, std::uint64_t,
                     std::vector<std::span<std::byte>> into,
                     std::function<void(std::size_t)> filled,
                     std::function<bool()> memoryWanted) override {
    EXPECT_TRUE(reactor_.onThisThread());
    while (!memoryWanted()) co_await reactor_.sleep(100us);
    for (std::size_t piece = 0; piece < into.size(); ++piece) {
      std::ranges::fill(into[piece], std::byte(lane_));
      filled(piece);
    }
    co_return Status();
  }
  // Ends when it is unwanted, if anybody can say so.
  Task<Status> stream(Location location, OriginExpectation, PieceSink&,
                      std::function<bool()>) override {
    EXPECT_TRUE(reactor_.onThisThread());
    while (location.unwanted && !location.unwanted()) co_await reactor_.sleep(100us);
    ++streams;
    co_return Status();
  }
  Task<void> close() override { co_return; }
  [[nodiscard]] OriginStatistics statistics() const override { return {}; }

  int streams = 0;

 private:
  Reactor& reactor_;
  const int lane_;
};

// Gives nothing, for the reason that the test has set.
class RefusingTransport final : public testing_rails::UnreachableTransport {
 public:
  explicit RefusingTransport(Reactor& reactor) : reactor_(reactor) {}
  bool reaches(const std::string&) override { return connected; }
  Task<Status> read(std::string, ContentKey, std::uint64_t, MemoryVector,
                    std::vector<std::uint32_t>&, RequestTimeouts, RequestClass) override {
    ++asked;
    EXPECT_TRUE(reactor_.onThisThread());
    co_return Error{reason, "it gives nothing"};
  }
  // Set and read while no read is under way.
  int asked = 0;
  bool connected = true;
  ErrorCode reason = ErrorCode::kTryElsewhere;

 private:
  Reactor& reactor_;
};

// Two shards: the tests' thread has the first one, and the second has a thread of its own.
struct ByteLanesTest : testing::Test {
  ByteLanesTest() {
    for (int lane = 0; lane < 2; ++lane) {
      reactors.push_back(std::move(*Reactor::create()));
      origins.push_back(std::make_unique<FillingOrigin>(*reactors[lane], lane));
      transports.push_back(std::make_unique<RefusingTransport>(*reactors[lane]));
      lanes.push_back({*reactors[lane], *origins[lane], *transports[lane]});
    }
    thread = std::thread([this] { reactors[1]->run(); });
  }
  ~ByteLanesTest() override {
    reactors[1]->stop();
    thread.join();
  }

  std::vector<std::unique_ptr<Reactor>> reactors;
  std::vector<std::unique_ptr<FillingOrigin>> origins;
  std::vector<std::unique_ptr<RefusingTransport>> transports;
  std::vector<ByteLane> lanes;
  std::thread thread;
};

struct Fetched {
  Status status;
  std::string bytes = std::string(2 * kPiece, '.');
  std::vector<std::size_t> pieces;
  bool sound = true;  // checksums, and the thread of all calls
};

Task<void> fetchRun(const ByteLanesTest& test, std::uint32_t chunk, Fetched& fetched) {
  const ByteLanes lanes(test.lanes, 0);
  const auto memory = std::as_writable_bytes(std::span(fetched.bytes));
  OriginRange range;
  range.into = {memory.first(kPiece), memory.subspan(kPiece)};
  Reactor& own = *test.reactors[0];
  ByteLanes::Filled filled = [&](std::size_t piece, std::vector<std::uint32_t> checksums) {
    fetched.pieces.push_back(piece);
    const auto expected = crc32cOfBlocks(memory.subspan(piece * kPiece, kPiece), kBlockBytes);
    fetched.sound = fetched.sound && own.onThisThread() && checksums == expected;
  };
  std::function<bool()> wanted = [&] {
    fetched.sound = fetched.sound && own.onThisThread();
    return true;
  };
  fetched.status =
      co_await lanes.fetch(chunk, std::move(range), std::move(filled), std::move(wanted));
  fetched.sound = fetched.sound && own.onThisThread();
}

TEST_F(ByteLanesTest, RunsOfAFileTakeTurnsAndItsShardHearsOfEachPiece) {
  for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
    Fetched fetched;
    auto one = [](ByteLanesTest& test, std::uint32_t of, Fetched& into) -> Task<bool> {
      co_await fetchRun(test, of, into);
      co_return true;
    };
    EXPECT_TRUE(reactors[0]->runUntilComplete(one(*this, chunk, fetched)));
    EXPECT_TRUE(fetched.status.ok());
    EXPECT_TRUE(fetched.sound);
    EXPECT_EQ(fetched.pieces, (std::vector<std::size_t>{0, 1}));
    const char lane = chunk / kRunChunks % 2 == 0 ? '\0' : '\1';
    EXPECT_EQ(fetched.bytes, std::string(2 * kPiece, lane)) << chunk;
  }
}

TEST_F(ByteLanesTest, StreamsTakeTurnsAndShardsBeginWithTheirOwnLane) {
  const auto stream = [](const ByteLanes& all, std::size_t number) -> Task<Status> {
    PieceSink sink(1, [](std::size_t) {});
    co_return co_await all.stream(number, {}, {}, sink, [] { return false; });
  };
  const ByteLanes first(lanes, 0), second(lanes, 1);
  const auto expectStreams = [this](int ofFirst, int ofSecond) {
    EXPECT_EQ(origins[0]->streams, ofFirst);
    EXPECT_EQ(origins[1]->streams, ofSecond);
  };
  EXPECT_TRUE(reactors[0]->runUntilComplete(stream(first, 0)).ok());
  expectStreams(1, 0);
  EXPECT_TRUE(reactors[0]->runUntilComplete(stream(first, 1)).ok());
  expectStreams(1, 1);
  EXPECT_EQ(&second.reactorOf(0), reactors[1].get());
  EXPECT_EQ(&second.reactorOf(1), reactors[0].get());
}

// A query of the shard's state that is true when it was asked a few times, on the shard's thread.
std::function<bool()> afterSomeAnswers(Reactor& shard, std::shared_ptr<int> answers) {
  return [&shard, answers = std::move(answers)] {
    EXPECT_TRUE(shard.onThisThread());
    return ++*answers > 3;
  };
}

TEST_F(ByteLanesTest, AStreamAsksTheShardWhetherItIsWanted) {
  const ByteLanes shard(lanes, 0);
  for (const std::size_t lane : {0, 1}) {
    const auto answers = std::make_shared<int>(0);
    Location location;
    location.unwanted = afterSomeAnswers(*reactors[0], answers);
    const auto stream = [](const ByteLanes& all, std::size_t number, Location at) -> Task<Status> {
      PieceSink sink(1, [](std::size_t) {});
      co_return co_await all.stream(number, std::move(at), {}, sink, nullptr);
    };
    EXPECT_TRUE(reactors[0]->runUntilComplete(stream(shard, lane, std::move(location))).ok());
    EXPECT_GT(*answers, 3) << "lane " << lane;
  }
}

struct PeerReads : ByteLanesTest {
  ByteLanes shard{lanes, 0};

  // The code that it ended with.
  ErrorCode read(std::uint32_t chunk, std::size_t size = ByteLanes::kFromBytes) {
    return reactors[0]->runUntilComplete(one(*this, chunk, size)).code();
  }
  static Task<Status> one(PeerReads& test, std::uint32_t chunk, std::size_t size) {
    std::vector<std::byte> memory(size);
    std::vector<std::uint32_t> checksums;
    PeerRange range{.node = "other",
                    .key = {},
                    .into = MemorySlice::of(memory),
                    .timeouts = Clock::now() + 1min};
    const Status status = co_await test.shard.read(chunk, std::move(range), checksums);
    EXPECT_TRUE(test.reactors[0]->onThisThread());
    co_return status;
  }
  void expectAsked(int own, int other) {
    EXPECT_EQ(transports[0]->asked, own);
    EXPECT_EQ(transports[1]->asked, other);
  }
};

TEST_F(PeerReads, SmallOnesStayOnTheShard) {
  EXPECT_EQ(read(kRunChunks), ErrorCode::kTryElsewhere);
  expectAsked(0, 1);
  EXPECT_EQ(read(kRunChunks, ByteLanes::kFromBytes - 1), ErrorCode::kTryElsewhere);
  EXPECT_EQ(read(0), ErrorCode::kTryElsewhere);
  expectAsked(2, 1);
}

TEST_F(PeerReads, TheShardReadsWhileTheLaneHasNoConnection) {
  transports[1]->connected = false;
  EXPECT_EQ(read(kRunChunks), ErrorCode::kTryElsewhere);
  expectAsked(1, 0);
}

TEST_F(PeerReads, WhoFellSilentIsAskedByTheLaneThatKnows) {
  transports[1]->reason = ErrorCode::kDeadlineExceeded;
  EXPECT_EQ(read(kRunChunks), ErrorCode::kDeadlineExceeded);
  transports[1]->connected = false;  // it ended it, and dials to see whether the agent is back
  EXPECT_EQ(read(0), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(read(kRunChunks, 1), ErrorCode::kDeadlineExceeded);
  expectAsked(0, 3);
  transports[1]->reason = ErrorCode::kTryElsewhere;  // it answers again
  EXPECT_EQ(read(0), ErrorCode::kTryElsewhere);
  EXPECT_EQ(read(0), ErrorCode::kTryElsewhere);
  expectAsked(1, 4);
}

}  // namespace
}  // namespace hearth
