// Bytes that have landed in memory serve readers and other agents; the disk follows.
#include "fetch/write_back.h"

#include <algorithm>
#include <filesystem>

#include "engine/peer_service.h"
#include "engine/testing_cluster.h"
#include "engine/testing_memory_pressure.h"
#include "engine/testing_reader.h"
#include "fetch/wanted_keys.h"
#include "files/testing/held_back_file_system.h"

namespace hearth::testing_cluster {
namespace {

using testing_support::DiskControl;
using testing_support::HeldBackFileSystem;

constexpr std::uint64_t kMebibyte = 1u << 20;

// An agent whose cache files are on a disk that the test holds back.
struct HeldBackAgent {
  explicit HeldBackAgent(const std::string& name, std::uint64_t memory = 256 * kMebibyte,
                         std::size_t shards = 2)
      : agent(name, [this, memory, shards](EngineOptions& options) {
          options.bufferBytes = memory;
          options.shards = shards;
          options.cacheDirectories.front().stall = Clock::duration::max();
          options.files = [control = disk](Reactor& reactor) {
            return std::make_unique<HeldBackFileSystem>(reactor, control);
          };
        }) {}

  [[nodiscard]] std::uint64_t stored(const std::shared_ptr<Dataset>& dataset) {
    return agent.await(agent.engine().contents().residency(dataset)).bytesResident;
  }
  [[nodiscard]] EngineStatistics statistics() { return agent.await(agent.engine().statistics()); }
  // Fetches all of the origin into memory, while the disk stands still and has nothing of it.
  [[nodiscard]] std::shared_ptr<Dataset> warmInMemory(const Origin& origin) {
    disk->stopped = true;
    std::shared_ptr<Dataset> dataset = agent.add(origin);
    agent.beginWarm(dataset);
    EXPECT_TRUE(eventually([&] { return statistics().writeBackBytes == origin.bytes(); }));
    return dataset;
  }
  void warm(const std::string& job, const std::shared_ptr<Dataset>& dataset) {
    WarmOptions options;
    options.job = job;
    options.dataset = dataset;
    options.entries = filesOf(*dataset->manifest);
    EXPECT_TRUE(agent.engine().warm(std::move(options)).ok());
  }
  [[nodiscard]] WarmProgress job(const std::string& name) {
    return agent.engine().findJob(name)->progress();
  }
  [[nodiscard]] DatasetSource source(const std::shared_ptr<Dataset>& dataset) {
    return {*agent.engine().commons().mounting, dataset, "test", false};
  }

  std::shared_ptr<DiskControl> disk = std::make_shared<DiskControl>();
  Agent agent;
};

TEST(WriteBack, ReadersDoNotWaitForTheDisk) {
  Origin origin;
  origin.add("model", 24 * kMebibyte + 12'345);
  HeldBackAgent one("one");
  one.disk->stopped = true;
  const auto dataset = one.agent.add(origin);
  DatasetSource source = one.source(dataset);
  ASSERT_NO_FATAL_FAILURE(expectFile(source, origin, 0, 128u << 10));
  EXPECT_EQ(one.disk->written.load(), 0u);
  EXPECT_EQ(one.stored(dataset), 0u);
  EXPECT_NE(one.statistics().writeBackBytes, 0u);
  one.disk->stopped = false;
  EXPECT_TRUE(eventually([&] { return one.stored(dataset) == origin.bytes(); }));
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == 0; }));
  EXPECT_EQ(one.statistics().throughBytes, 0u);
}

TEST(WriteBack, OtherAgentsGetChunksBeforeTheDiskHasThem) {
  Origin origin;
  origin.add("model", 24 * kMebibyte + 12'345);
  HeldBackAgent one("one"), two("two");
  connect({&one.agent, &two.agent});
  const auto held = one.warmInMemory(origin);
  const auto wanted = two.agent.add(origin);
  std::filesystem::rename(origin.folder(), origin.folder() + ".away");
  DatasetSource source = two.source(wanted);
  EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 0, 1 * kMebibyte));
  std::filesystem::rename(origin.folder() + ".away", origin.folder());
  EXPECT_EQ(one.disk->written.load(), 0u);
  EXPECT_EQ(two.statistics().origin.bytes, 0u);
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
}

TEST(WriteBack, AWarmJobEndsWhenAllIsStored) {
  Origin origin;
  for (int i = 0; i < 3; ++i) origin.add("file" + std::to_string(i), 9 * kMebibyte);
  HeldBackAgent one("one");
  const auto dataset = one.warmInMemory(origin);
  // The job hears of it a moment later.
  EXPECT_TRUE(eventually([&] { return one.job("warm").bytesInMemory == origin.bytes(); }));
  const WarmProgress landed = one.job("warm");
  EXPECT_EQ(landed.state, WarmState::kRunning);
  EXPECT_EQ(landed.bytesReady, 0u);
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(one.stored(dataset), origin.bytes());
}

TEST(WriteBack, AFileIsWrittenInOrder) {
  Origin origin;
  constexpr std::size_t kChunks = 12;  // a turn, which the memory of a shard takes
  static_assert(kChunks <= WriteBack::kInARow);
  origin.add("model", kChunks * kChunkBytes);
  HeldBackAgent one("one");
  const auto dataset = one.warmInMemory(origin);
  const std::size_t before = one.disk->offsets().size();
  EXPECT_LE(before, WriteBack::kAtOnce);
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  // Offsets of chunks that waited when the disk went on; chunks begun before lie where they came
  // first.
  const std::vector<std::uint64_t> offsets = one.disk->offsets();
  ASSERT_EQ(offsets.size(), kChunks);
  // Chunks written at the same time may overtake one another on their way to the disk; of eight in
  // no order, three or four would lie before the one ahead of them.
  std::size_t overtaken = 0;
  for (std::size_t at = before + 1; at < kChunks; ++at) overtaken += offsets[at] < offsets[at - 1];
  EXPECT_LE(overtaken, WriteBack::kAtOnce / 2) << testing::PrintToString(offsets);
}

// The larger file comes in faster than it is written.
TEST(WriteBack, AFileIsStoredBesideALargerOne) {
  Origin large, small;
  large.add("large", 480 * kMebibyte);
  small.add("small", 1 * kMebibyte);
  HeldBackAgent one("one", 128 * kMebibyte, 1);
  one.disk->pause = std::chrono::milliseconds(400);
  one.warm("large", one.agent.add(large));
  EXPECT_TRUE(eventually([&] { return one.job("large").bytesReady >= 32 * kMebibyte; }));
  one.warm("small", one.agent.add(small));
  EXPECT_TRUE(eventually([&] { return one.job("small").state == WarmState::kSucceeded; }));
  EXPECT_LT(one.job("large").bytesReady, large.bytes() / 8 * 7);
  one.disk->pause = std::chrono::milliseconds(0);
  EXPECT_TRUE(eventually([&] { return one.job("large").state == WarmState::kSucceeded; }));
}

// Drops the file as a wrong digest does. Returns how many chunks were on their way.
Task<std::size_t> dropAll(Shard& shard, ContentKey key) {
  const std::shared_ptr<KeyFetch> fetch = shard.wanted->find(key);
  fetch->cache->discard();
  fetch->loaded.clear();
  co_return fetch->flights.size();
}

TEST(WriteBack, WritesNoDroppedChunk) {
  Origin origin;
  origin.add("model", 6 * kChunkBytes);
  HeldBackAgent one("one");
  one.disk->stopped = true;
  const auto dataset = one.agent.add(origin);
  one.agent.beginWarm(dataset);
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == origin.bytes(); }));
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  Shard& shard = one.agent.engine().commons().owner(key);
  EXPECT_EQ(runOn(*shard.reactor, dropAll(shard, key)), 6u);
  DatasetSource source = one.source(dataset);
  EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 0, 1 * kMebibyte));
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(one.stored(dataset), origin.bytes());
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == 0; }));
  // The disk got each chunk once, except chunks that were being written.
  EXPECT_LE(one.disk->written.load(), origin.bytes() + WriteBack::kAtOnce * kChunkBytes);
}

TEST(WriteBack, TakesDroppedChunksBackFromPeers) {
  Origin origin;
  origin.add("model", 6 * kChunkBytes);
  HeldBackAgent one("one");
  const auto dataset = one.warmInMemory(origin);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  Shard& shard = one.agent.engine().commons().owner(key);
  const Result<BytesAnswer> unread =
      runOn(*shard.reactor,
            shard.peerService->onRead("peer", key, 5 * kChunkBytes, kBlockBytes, Interest()));
  ASSERT_TRUE(unread.ok()) << unread.error().message;
  EXPECT_EQ(runOn(*shard.reactor, dropAll(shard, key)), 6u);
  one.disk->stopped = false;
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == 0; }));
  EXPECT_NE(unread->lent->now().keep, nullptr);
  const MemoryPressure pressure(shard);
  EXPECT_TRUE(eventually([&] { return unread->lent->now().keep == nullptr; }));
}

// Each file takes the latency of the disk, and little of its throughput.
TEST(WriteBack, ManySmallFilesAreWrittenAtATime) {
  Origin origin;
  for (int i = 0; i < 24; ++i) origin.add("small" + std::to_string(i), 16'384);
  HeldBackAgent one("one", 256 * kMebibyte, 1);
  const auto dataset = one.warmInMemory(origin);
  EXPECT_TRUE(eventually([&] { return one.disk->offsets().size() > WriteBack::kAtOnce; }));
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
}

// Memory is full of chunks that the disk refused and that are written again when it takes
// something. Then the disk hangs.
TEST(WriteBack, DropsChunksThatAreWrittenAgainForReaders) {
  Origin refused, other;
  refused.add("refused", 28 * kMebibyte);
  other.add("other", 96 * kMebibyte);
  HeldBackAgent one("one", 32 * kMebibyte, 1);
  one.disk->broken = true;
  const auto dataset = one.agent.add(refused);
  DatasetSource source = one.source(dataset);
  const auto open = source.openFile(filesOf(*dataset->manifest).front());
  ASSERT_TRUE(open.ok());
  ASSERT_NO_FATAL_FAILURE(expectFile(source, refused, 0, 1 * kMebibyte));
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == 0; }));
  one.disk->stopped = true;
  one.disk->broken = false;
  // All that is in memory waits for the disk.
  EXPECT_TRUE(eventually([&] {
    const EngineStatistics now = one.statistics();
    return now.writeBackBytes != 0 && now.writeBackBytes == now.arena.keptBytes;
  }));
  DatasetSource another = one.source(one.agent.add(other));
  EXPECT_NO_FATAL_FAILURE(expectFile(another, other, 0, 1 * kMebibyte));
  one.disk->stopped = false;
  // The agent fetches dropped chunks again, and keeps them.
  one.agent.beginWarm(dataset);
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(one.stored(dataset), refused.bytes());
}

TEST(WriteBack, ReadersGoThroughWhenTheDiskTakesNothing) {
  Origin origin;
  origin.add("model", 160 * kMebibyte);
  HeldBackAgent one("one", 64 * kMebibyte);
  one.disk->stopped = true;
  const auto dataset = one.agent.add(origin);
  DatasetSource source = one.source(dataset);
  EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 0, 1 * kMebibyte));
  EXPECT_EQ(one.disk->written.load(), 0u);
  EXPECT_NE(one.statistics().throughBytes, 0u);
  one.disk->stopped = false;
  // The agent fetches dropped chunks again, and keeps them.
  one.agent.beginWarm(dataset);
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(one.stored(dataset), origin.bytes());
}

TEST(WriteBack, AReaderBesideAWarmJobGoesThroughAStoppedDisk) {
  Origin origin;
  origin.add("warmed", 160 * kMebibyte);
  origin.add("read", 16 * kMebibyte);
  HeldBackAgent one("one", 64 * kMebibyte);
  one.disk->stopped = true;
  const auto dataset = one.agent.add(origin);
  one.agent.beginWarm(dataset);
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes != 0; }));
  DatasetSource source = one.source(dataset);
  EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 1, 1 * kMebibyte));
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(one.stored(dataset), origin.bytes());
}

// Memory of one pool is short, and the chunks that wait for the disk are within the other pool's
// reserve.
TEST(WriteBack, DropsNothingThatWouldHelpNoReader) {
  Origin origin;
  origin.add("model", 4 * kChunkBytes);
  HeldBackAgent one("one", 64 * kMebibyte, 1);
  one.disk->stopped = true;
  one.warm("warm", one.agent.add(origin));
  EXPECT_TRUE(eventually([&] { return one.statistics().writeBackBytes == origin.bytes(); }));
  Shard& shard = *one.agent.engine().commons().shards.front();
  ASSERT_EQ(shard.originBuffers->reserve(), 4u);
  struct Wrap {
    static Task<bool> wait(Shard& shard) {
      std::vector<std::vector<ChunkBuffer>> held;
      for (std::size_t i = 0; i < shard.peerBuffers->capacity(); ++i)
        held.push_back(co_await shard.peerBuffers->acquire(Priority::kDemand, 1));
      Gate waiting(*shard.reactor);
      auto more = [](BufferPool& pool) -> Task<void> {
        (void)co_await pool.acquire(Priority::kDemand, 1);
      };
      waiting.spawn(more(*shard.peerBuffers));
      co_await shard.reactor->sleep(2 * WriteBack::kStalled);
      held.clear();
      co_await waiting.close();
      co_return true;
    }
  };
  EXPECT_TRUE(runOn(*shard.reactor, Wrap::wait(shard)));
  one.disk->stopped = false;
  EXPECT_TRUE(eventually([&] { return one.job("warm").state == WarmState::kSucceeded; }));
  EXPECT_EQ(one.statistics().origin.bytes, origin.bytes());
}

// A slow peer gives the memory back before the chunk is in the file: it is lent again.
TEST(WriteBack, SendsChunksFromMemoryUntilTheyAreStored) {
  Origin origin;
  origin.add("model", 4 * kChunkBytes);
  HeldBackAgent one("one");
  const auto dataset = one.warmInMemory(origin);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  Shard& shard = one.agent.engine().commons().owner(key);
  const Result<BytesAnswer> answer = runOn(
      *shard.reactor,
      shard.peerService->onRead("peer", key, kChunkBytes + kBlockBytes, kBlockBytes, Interest()));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  const auto text = [&answer] {
    const LentPayload::Piece piece = answer->lent->now();
    return std::string(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  };
  const std::string good = origin.bytesOf("model").substr(kChunkBytes + kBlockBytes, kBlockBytes);
  EXPECT_EQ(text(), good);
  answer->lent->release();
  EXPECT_EQ(text(), "");
  EXPECT_TRUE(runOn(*shard.reactor, answer->lent->load()).ok());
  EXPECT_EQ(text(), good);
  one.disk->stopped = false;
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  answer->lent->release();
  EXPECT_TRUE(runOn(*shard.reactor, answer->lent->load()).ok());
  EXPECT_EQ(text(), good);
}

TEST(WriteBack, ADiskThatFailsBreaksNoReaderAndFailsTheJob) {
  Origin origin;
  origin.add("model", 24 * kMebibyte);
  HeldBackAgent one("one"), two("two");
  connect({&one.agent, &two.agent});
  one.disk->broken = true;
  const auto dataset = one.agent.add(origin);
  DatasetSource source = one.source(dataset);
  EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 0, 1 * kMebibyte));
  one.agent.beginWarm(dataset);
  const WarmProgress progress = one.agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kIoError);
  EXPECT_EQ(one.stored(dataset), 0u);
  // Agent two does not look here for chunks that are in no file any more.
  DatasetSource other = two.source(two.agent.add(origin));
  EXPECT_NO_FATAL_FAILURE(expectFile(other, origin, 0, 1 * kMebibyte));
}

TEST(WriteBack, ClosingWaitsOnlyForWritesUnderWay) {
  Origin origin;
  origin.add("model", 48 * kMebibyte);
  HeldBackAgent one("one");
  const auto dataset = one.warmInMemory(origin);
  Shard& shard = one.agent.engine().commons().owner(
      dataset->manifest->entry(filesOf(*dataset->manifest).front()).key);
  auto closed = [](const Shard& there) -> Task<bool> { co_return there.gate->closed(); };
  std::thread closing([&] { one.agent.stop(); });
  // The shard is there until the writes that are under way have ended, with the disk.
  EXPECT_TRUE(eventually([&] { return runOn(*shard.reactor, closed(shard)); }));
  one.disk->stopped = false;
  closing.join();
  EXPECT_LE(one.disk->written.load(), 2 * WriteBack::kAtOnce * kChunkBytes);
  // The next agent finds the written chunks, and fetches the rest again.
  one.agent.start();
  one.agent.beginWarm(one.agent.add(origin));
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
}

}  // namespace
}  // namespace hearth::testing_cluster
