// Answers to a peer whose chunk's memory was taken back in the middle.
#include "engine/lent_chunk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "base/crc32c.h"
#include "base/testing/moved_clock.h"
#include "engine/peer_service.h"
#include "engine/testing_cluster.h"
#include "engine/testing_memory_pressure.h"
#include "fetch/wanted_keys.h"

namespace hearth::testing_cluster {
namespace {

// Range in the second chunk.
constexpr std::uint64_t kOffset = kChunkBytes + 3 * kBlockBytes;
constexpr std::uint32_t kLength = 5 * kBlockBytes;

class LentChunkTest : public testing::Test {
 protected:
  explicit LentChunkTest(NodeLimitOptions limits = {}, Interest asking = Interest())
      : agent("one",
              [limits](EngineOptions& options) {
                options.scrub.bytesPerSecond = 0;
                options.limits = limits;
              }),
        interest(std::move(asking)) {}
  void SetUp() override {
    origin.add("model", 3 * kChunkBytes);
    good = origin.bytesOf("model").substr(kOffset, kLength);
    dataset = agent.add(origin);
    agent.beginWarm(dataset);
    ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
    shard = &agent.engine().commons().owner(key);
    answer = runOn(*shard->reactor, ask());
    ASSERT_NE(answer.lent, nullptr);
  }
  void TearDown() override {
    fetch.reset();
    runOn(*shard->reactor, release());
    agent.stop();
  }
  // Asks as a peer does while the chunk is in memory, where it is zeros, so that each byte shows
  // where it came from.
  Task<BytesAnswer> ask() {
    const std::uint32_t entry = filesOf(*dataset->manifest).front();
    Task<Result<std::shared_ptr<FileFetch>>> opening =
        shard->fetcher->open(FileReference::of(dataset, entry));
    const Result<std::shared_ptr<FileFetch>> opened = co_await opening;
    EXPECT_TRUE(opened.ok());
    fetch = *opened;
    std::vector<ChunkBuffer> buffers = co_await shard->peerBuffers->acquire(Priority::kDemand, 1);
    const std::span<std::byte> memory = buffers.front().first(kChunkBytes);
    std::fill(memory.begin(), memory.end(), std::byte{0});
    loaded = loadInto(*shard->reactor, std::move(buffers.front()), kChunkBytes);
    loaded->checksums = fetch->cache->blockChecksums(1);
    fetch->loaded.put(1, loaded);
    Task<Result<BytesAnswer>> reading =
        shard->peerService->onRead("peer", key, kOffset, kLength, interest);
    Result<BytesAnswer> read = co_await reading;
    EXPECT_TRUE(read.ok());
    co_return read.ok() ? std::move(*read) : BytesAnswer();
  }
  // Takes the memory back, as when buffers are short.
  Task<bool> takeBack() {
    fetch->loaded.erase(1, *loaded);
    loaded->takeBack();
    loaded.reset();
    co_return true;
  }
  Task<bool> release() {
    answer = {};
    loaded.reset();
    co_return true;
  }
  Status load() { return runOn(*shard->reactor, answer.lent->load()); }
  [[nodiscard]] std::string now() const {
    const LentPayload::Piece piece = answer.lent->now();
    return {reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()};
  }
  [[nodiscard]] EvictOutcome evict() {
    Result<EvictOutcome> outcome = agent.await(agent.engine().commons().cache->evict(key));
    EXPECT_TRUE(outcome.ok());
    return *outcome;
  }
  static Task<bool> letGo(std::shared_ptr<LoadedChunk> last) {
    last.reset();
    co_return true;
  }
  // Changes 16 bytes of the file.
  void change(std::uint64_t at) {
    const int file = open(fetch->cache->path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    const char bad[16] = {1, 2, 3};
    ASSERT_EQ(pwrite(file, bad, sizeof bad, static_cast<off_t>(at)), 16);
    close(file);
  }

  Origin origin;
  Agent agent;
  const Interest interest;
  std::shared_ptr<Dataset> dataset;
  std::string good;
  ContentKey key;
  Shard* shard = nullptr;
  std::shared_ptr<FileFetch> fetch;
  std::shared_ptr<LoadedChunk> loaded;
  BytesAnswer answer;
};

TEST_F(LentChunkTest, TakesTheRestFromTheFile) {
  EXPECT_TRUE(now() == std::string(kLength, '\0')) << "from memory";
  runOn(*shard->reactor, takeBack());
  EXPECT_EQ(shard->peerBuffers->inUse(), 0u) << "the buffer is free";
  EXPECT_TRUE(now().empty()) << "nothing before it was read";
  ASSERT_TRUE(load().ok());
  EXPECT_TRUE(now() == good);
  EXPECT_EQ(crc32cOfBlocks(answer.lent->now().bytes, kBlockBytes), answer.blockChecksums);
}

// The memory was given back because much else is to be sent first; the chunk has stayed in memory.
TEST_F(LentChunkTest, ComesFromMemoryAgainAfterAWait) {
  answer.lent->release();
  EXPECT_TRUE(now().empty());
  ASSERT_TRUE(load().ok());
  EXPECT_TRUE(now() == std::string(kLength, '\0')) << "from memory";
  runOn(*shard->reactor, takeBack());
  EXPECT_EQ(shard->peerBuffers->inUse(), 0u) << "it can be taken back once more";
  EXPECT_TRUE(now().empty());
  ASSERT_TRUE(load().ok());
  EXPECT_TRUE(now() == good);
}

TEST_F(LentChunkTest, AChunkThatWasRetractedEndsTheAnswer) {
  runOn(*shard->reactor, takeBack());
  fetch->cache->discard();
  EXPECT_EQ(load().code(), ErrorCode::kNotFound);
  EXPECT_TRUE(now().empty());
}

TEST_F(LentChunkTest, BytesThatChangedOnTheDiskEndTheAnswer) {
  runOn(*shard->reactor, takeBack());
  change(kOffset + kBlockBytes);
  EXPECT_EQ(load().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(now().empty());
  EXPECT_FALSE(fetch->cache->resident(1)) << "and no other gets them";
}

// A reader had the chunk when it was borrowed once more, and has let go.
TEST_F(LentChunkTest, TakesBackAChunkThatIsKeptNowhereElse) {
  std::shared_ptr<LoadedChunk> read = loaded;
  runOn(*shard->reactor, takeBack());
  fetch->cache->discard();
  ASSERT_TRUE(load().ok());
  runOn(*shard->reactor, letGo(std::move(read)));
  EXPECT_FALSE(now().empty()) << "the peer reads nothing";
  const MemoryPressure pressure(*shard);
  EXPECT_TRUE(eventually([this] { return now().empty(); }));
}

// The answer alone keeps the file in use.
TEST_F(LentChunkTest, KeepsItsFileUntilItIsSent) {
  runOn(*shard->reactor, takeBack());
  fetch.reset();
  EXPECT_EQ(evict(), EvictOutcome::kInUse);
  ASSERT_TRUE(load().ok());
  EXPECT_TRUE(now() == good);
  runOn(*shard->reactor, release());
  EXPECT_EQ(evict(), EvictOutcome::kEvicted);
}

// Answers an agent that reads in the background, from a disk that may give next to nothing to
// background work.
class LimitedLentChunkTest : public LentChunkTest {
 protected:
  static constexpr std::uint64_t kRate = 64u << 20;

  LimitedLentChunkTest()
      : LentChunkTest({.disk = {.warm = kRate}},
                      Interest(Clock::time_point::max(), RequestClass::kWarm)) {}
  // Reads the file when its memory was taken back, and all of an hour is spent.
  std::future<Status> beginLoad() {
    runOn(*shard->reactor, takeBack());
    EXPECT_TRUE(eventually([&] { return disk().tryPass(3600 * kRate, Priority::kBackground); }));
    std::future<Status> loading = std::async(std::launch::async, [this] { return load(); });
    EXPECT_TRUE(eventually([&] { return disk().use(Priority::kBackground).waiting == 1; }));
    return loading;
  }
  [[nodiscard]] BandwidthLimiter& disk() { return agent.engine().commons().limits->disk; }
};

TEST_F(LimitedLentChunkTest, WaitsForThePartOfTheDiskOfItsAsker) {
  std::future<Status> loading = beginLoad();
  moveClock(std::chrono::hours(1));
  EXPECT_TRUE(loading.get().ok());
  EXPECT_TRUE(now() == good);
}

TEST_F(LimitedLentChunkTest, WaitsNoLongerThanItsAsker) {
  std::future<Status> loading = beginLoad();
  interest.end();
  EXPECT_FALSE(loading.get().ok());
  EXPECT_EQ(disk().use(Priority::kBackground).waiting, 0u);
  EXPECT_TRUE(now().empty());
}

}  // namespace
}  // namespace hearth::testing_cluster
