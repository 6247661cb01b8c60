// Datasets on one shard, one of which has an origin that trickles: the others go on.
#include <atomic>
#include <future>
#include <thread>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "fetch/fetcher.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSlowBytes = 48u << 20;
constexpr std::size_t kShardBuffers = 10;  // of 16: peers have a reserve of 4, clients of 2

// Serves a file of kSlowBytes at 4 KiB/s, which is no stall and takes hours, as long as it lives.
class TricklingServer {
 public:
  [[nodiscard]] std::vector<std::byte> manifest() const { return server_.manifest(); }
  [[nodiscard]] Location location() const { return server_.location(); }

 private:
  void trickle(int fd) const {
    do {
      std::this_thread::sleep_for(25ms);
    } while (!server_.stopping() && RangeServer::send(fd, std::string(100, 'x')));
  }

  const RangeServer server_{
      kSlowBytes, [this](int fd, std::uint64_t /*first*/, std::uint64_t /*last*/) { trickle(fd); }};
};

// The chunks of a key that come from the origin, as other agents see them.
struct Underway {
  Shard& shard;
  ContentKey key;
  std::atomic<std::size_t> elsewhere{0};  // agents that waited for a chunk, and are sent elsewhere

  Task<void> wait(std::uint32_t chunk) {
    const Status awaited = co_await shard.fetcher->awaitChunk(key, chunk);
    if (awaited.code() == ErrorCode::kTryElsewhere) ++elsewhere;
  }
  // The number of these chunks. `waiting`: one agent begins to wait for each.
  Task<std::size_t> count(Reactor& home, bool waiting) {
    co_await shard.reactor->enter();
    std::size_t sum = 0;
    for (const auto& [chunk, flight] : shard.wanted->find(key)->flights) {
      if (flight->state() != ChunkFlight::State::kFromOrigin) continue;
      ++sum;
      if (waiting) shard.gate->spawn(wait(chunk));
    }
    co_await home.enter();
    co_return sum;
  }
};

// Readers of every chunk of a dataset whose origin trickles, on an agent with one shard.
struct SlowOriginTest : testing::Test {
  void SetUp() override {
    const auto added = agent.await(agent.engine().manifests().add(server.manifest()));
    ASSERT_TRUE(added.ok());
    const auto slow = agent.engine().manifests().find((*added)->manifest->digest(), "slow");
    slow->locations.setBase(server.location());
    source =
        std::make_unique<DatasetSource>(*agent.engine().commons().mounting, slow, "test", false);
    opened = *source->openFile(*slow->manifest->lookUp("model"));
    for (std::uint64_t at = 0; at < kSlowBytes; at += kChunkBytes) {
      auto answered = std::make_shared<std::promise<ErrorCode>>();
      readers.push_back(answered->get_future());
      opened->read(at, 4096, [answered](const Result<MappedBytes>& bytes) {
        answered->set_value(bytes.code());
      });
    }
    ASSERT_TRUE(eventually([&] { return inUse() >= kShardBuffers; }));
    origin.add("other", 20u << 20);
    const auto listed = agent.await(agent.engine().manifests().add(origin.manifest()));
    ASSERT_TRUE(listed.ok());
    other = agent.engine().manifests().find((*listed)->manifest->digest(), "other");
    Location folder;
    folder.path = folder.below = origin.folder();
    other->locations.setBase(std::move(folder));
  }
  // Readers of the slow dataset have not failed meanwhile.
  void TearDown() override {
    for (auto& reader : readers) EXPECT_EQ(reader.wait_for(0s), std::future_status::timeout);
    agent.engine().close();
    for (auto& reader : readers) EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
  }
  std::size_t inUse() { return agent.await(agent.engine().statistics()).buffersInUse; }

  TricklingServer server;
  Origin origin;
  Agent agent{"one", [](EngineOptions& options) {
                options.shards = 1;
                options.originFloorTimeout = 300ms;
              }};
  std::unique_ptr<DatasetSource> source;
  std::shared_ptr<MountSource::OpenFile> opened;
  std::shared_ptr<Dataset> other;
  std::vector<std::future<ErrorCode>> readers;
  std::unique_ptr<Underway> underway;
};

TEST_F(SlowOriginTest, AnotherDatasetIsReadWhileOneHoldsAllMemory) {
  const std::uint32_t entry = filesOf(*other->manifest).front();
  auto answered = std::make_shared<std::promise<ErrorCode>>();
  auto reading = answered->get_future();
  DatasetSource fast(*agent.engine().commons().mounting, other, "test", false);
  const auto file = *fast.openFile(entry);
  file->read(0, 4096,
             [answered](const Result<MappedBytes>& bytes) { answered->set_value(bytes.code()); });
  ASSERT_EQ(reading.wait_for(kHang), std::future_status::ready)
      << "the slow origin's dataset holds all memory";
  EXPECT_EQ(reading.get(), ErrorCode::kOk);
}

TEST_F(SlowOriginTest, AnotherDatasetIsWarmedWhileReadersOfOneHoldAllMemory) {
  agent.beginWarm(other);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

// Others would otherwise wait for chunks that are not coming, and a new directory would count them
// as coming.
TEST_F(SlowOriginTest, AChunkThatGaveWayIsNotOnItsWay) {
  const std::string path = "model";
  underway.reset(new Underway{*agent.engine().commons().shards.front(),
                              {Sha256::of(std::as_bytes(std::span(path)))}});
  Reactor& home = agent.engine().home();
  const std::size_t waiting = agent.await(underway->count(home, true));
  EXPECT_GE(waiting, 1u);
  EXPECT_LE(waiting, kShardBuffers);
  EXPECT_EQ(underway->elsewhere, 0u);
  agent.beginWarm(other);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_LE(agent.await(underway->count(home, false)), kShardBuffers);
  EXPECT_GE(underway->elsewhere, 1u);
}

// The transfers would go on for hours.
TEST(CancelledJob, EndsItsTransfersAtOnce) {
  const TricklingServer server;
  Agent agent("one");
  const auto added = agent.await(agent.engine().manifests().add(server.manifest()));
  ASSERT_TRUE(added.ok());
  (*added)->locations.setBase(server.location());
  agent.beginWarm(*added, Verification::kNone);
  const auto inUse = [&] { return agent.await(agent.engine().statistics()).buffersInUse; };
  ASSERT_TRUE(eventually([&] { return inUse() != 0; }));
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kCancelled);
  EXPECT_TRUE(eventually([&] { return inUse() == 0; })) << "its memory comes back";
}

}  // namespace
}  // namespace hearth::testing_cluster
