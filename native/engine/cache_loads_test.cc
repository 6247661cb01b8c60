// Chunks that come from cache files into memory: ahead of readers, and for peers.
#include "fetch/cache_loads.h"

#include <fcntl.h>

#include "engine/testing_reader.h"

namespace hearth::testing_cluster {
namespace {

// The last chunk is short enough to be read by itself.
constexpr std::uint64_t kWhole = 10 * kChunkBytes;
constexpr std::uint64_t kFile = kWhole + 70001;
constexpr std::uint32_t kStep = 1u << 20;

class CacheLoadsTest : public testing::Test {
 protected:
  void SetUp() override { origin.add("model", kFile); }

  void start(std::function<void(EngineOptions&)> adjust = {}) {
    agent = std::make_unique<Agent>("holder", std::move(adjust));
    dataset = agent->add(origin);
    agent->beginWarm(dataset);
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
    toDisk();
  }
  [[nodiscard]] ContentKey key() const {
    return dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  }
  [[nodiscard]] std::string path() const {
    return agent->engine().commons().cache->find(key())->path();
  }
  // Leaves the cached bytes on the disk alone: neither in the agent's memory nor in the page cache.
  void toDisk() {
    const Evicted evicted = agent->await(
        agent->engine().contents().letGo(dataset, filesOf(*dataset->manifest), LetGo::kMemory));
    ASSERT_NE(evicted.memoryBytes, 0u);
    dropPageCache();
  }
  void dropPageCache() const {
    const int fd = open(path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
  }
  // Loads ahead until `bytes` have come from the disk. A load ahead passes over a chunk that finds
  // no free buffer, and over one whose pages the kernel has not dropped yet; hence again.
  [[nodiscard]] bool loadsAhead(MountSource::OpenFile& opened, std::uint64_t bytes) const {
    return eventually([&] {
      if (arena().loadedBytes == bytes) return true;
      dropPageCache();
      opened.loadAhead(0, kFile);
      return false;
    });
  }
  [[nodiscard]] EngineStatistics::ArenaUse arena() const {
    return agent->await(agent->engine().statistics()).arena;
  }
  std::unique_ptr<DatasetSource> mounted() {
    return std::make_unique<DatasetSource>(*agent->engine().commons().mounting, dataset, "test",
                                           false);
  }
  // Reads the whole file by another agent, which has no way to the origin.
  void readByAPeer() {
    Agent reader("reader");
    connect({agent.get(), &reader});
    const auto known = reader.await(reader.engine().manifests().add(origin.manifest()));
    ASSERT_TRUE(known.ok());
    Location nowhere;
    nowhere.path = nowhere.below = "/nowhere";
    (*known)->locations.setBase(std::move(nowhere));
    DatasetSource source(*reader.engine().commons().mounting, *known, "test", false);
    expectFile(source, origin, 0, kStep);
  }

  Origin origin;
  std::unique_ptr<Agent> agent;
  std::shared_ptr<Dataset> dataset;
};

TEST_F(CacheLoadsTest, AnswersPeersFromMemoryOnceAChunkWasReadFromTheDisk) {
  start();
  readByAPeer();
  EXPECT_EQ(arena().loadedBytes, kWhole) << "once";
  EXPECT_EQ(arena().keptBytes, kWhole);
}

TEST_F(CacheLoadsTest, ReadsNothingAheadFromALimitedDisk) {
  start([](EngineOptions& options) { options.limits.disk.total = 1u << 30; });
  readByAPeer();
  EXPECT_EQ(arena().loadedBytes, 0u);
}

TEST_F(CacheLoadsTest, GivesAwayNoChunkThatTheDiskHasLost) {
  start();
  const int fd = open(path().c_str(), O_RDONLY | O_CLOEXEC);
  chmod(path().c_str(), 0644);
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(3 * kChunkBytes + 70000));
  file.write("?", 1);
  file.close();
  ASSERT_EQ(fsync(fd), 0);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  const auto source = mounted();
  const auto opened = source->openFile(*source->manifest().lookUp("model"));
  ASSERT_TRUE(opened.ok());
  (*opened)->willNeed(0, 1);  // a reader has it open
  EXPECT_TRUE(loadsAhead(**opened, kFile - kChunkBytes)) << arena().loadedBytes;
  expectFile(*source, origin, 0, kStep);
}

TEST_F(CacheLoadsTest, AnswersACloseReaderFromMemory) {
  start();
  const auto source = mounted();
  const auto opened = source->openFile(*source->manifest().lookUp("model"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->tryRead(0, kStep).code(), ErrorCode::kNotFound)
      << "who takes requests does not wait for the disk";
  EXPECT_TRUE(loadsAhead(**opened, kFile)) << arena().loadedBytes;
  EXPECT_TRUE(eventually([&] { return (*opened)->tryRead(0, kStep).ok(); }));
  EXPECT_TRUE((*opened)->tryRead(kFile - 1000, 1000).ok());
  expectFile(*source, origin, 0, kStep);
  EXPECT_EQ(arena().loadedBytes, kFile) << "once";
}

// Mapped and in the page cache, as a reader by passthrough leaves it.
TEST_F(CacheLoadsTest, AnswersFromThePageCache) {
  start();
  const auto source = mounted();
  const auto opened = source->openFile(*source->manifest().lookUp("model"));
  ASSERT_TRUE(opened.ok());
  expectFile(*source, origin, 0, kStep);
  EXPECT_TRUE((*opened)->tryRead(kChunkBytes - 100, 1000).ok());
  EXPECT_EQ(arena().loadedBytes, 0u);
}

// With next to no memory all of it comes from the file.
TEST_F(CacheLoadsTest, ReadsTheFileWithoutMemoryToSpare) {
  start([](EngineOptions& options) {
    options.shards = 1;
    options.bufferBytes = 8 * kChunkBytes;
  });
  const auto source = mounted();
  const auto opened = source->openFile(*source->manifest().lookUp("model"));
  ASSERT_TRUE(opened.ok());
  for (int i = 0; i < 3; ++i) {
    (*opened)->loadAhead(0, kFile);
    expectFile(*source, origin, 0, kStep);
  }
  readByAPeer();
}

TEST_F(CacheLoadsTest, AnAgentClosesWhileChunksComeIn) {
  start();
  const auto source = mounted();
  const auto opened = source->openFile(*source->manifest().lookUp("model"));
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->tryRead(0, kStep).code(), ErrorCode::kNotFound);
  (*opened)->loadAhead(0, kFile);
  agent->engine().close();
}

}  // namespace
}  // namespace hearth::testing_cluster
