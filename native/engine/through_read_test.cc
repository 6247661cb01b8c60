// Readers whose bytes the cache cannot keep get them all the same, right and without an error.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "engine/testing_cluster.h"
#include "engine/testing_reader.h"
#include "fuse/testing/mapped_read.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

std::uint64_t usedBytes(Agent& agent) {
  return agent.await(agent.engine().statistics()).cache.directories.front().usedBytes;
}

TEST(ThroughRead, AFileLargerThanTheBudgetIsReadRight) {
  Origin origin;
  origin.add("model", 40 * kMiB + 12'345);
  Agent agent("one", 16 * kMiB);
  DatasetSource source(*agent.engine().commons().mounting, agent.add(origin), "test", false);
  // Also in pieces that lie across two chunks.
  for (const std::uint32_t step : {128u << 10, 1'000'000u})
    ASSERT_NO_FATAL_FAILURE(expectFile(source, origin, 0, step));
  EXPECT_LE(usedBytes(agent), 16 * kMiB);
  const EngineStatistics statistics = agent.await(agent.engine().statistics());
  EXPECT_GE(statistics.throughBytes, 24 * kMiB);
  // A chunk stays in memory while its reader goes through it: the agent does not fetch it again for
  // each of the 32 pieces in which it is read.
  EXPECT_LE(statistics.origin.bytes, 6 * origin.bytes());
}

TEST(ThroughRead, KeepsChunksAgainWhenThereIsRoom) {
  Origin first, second;
  first.add("first", 16 * kMiB);
  second.add("second", 8 * kMiB);
  Agent agent("one", 16 * kMiB);
  const auto held = agent.add(first);
  agent.beginWarm(held);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  const ContentKey key = held->manifest->entry(filesOf(*held->manifest).front()).key;
  agent.engine().commons().cache->pin(key, "test");
  const auto wanted = agent.add(second);
  DatasetSource source(*agent.engine().commons().mounting, wanted, "test", false);
  expectFile(source, second, 0, 1 * kMiB);
  EXPECT_EQ(agent.await(agent.engine().contents().residency(wanted)).bytesResident, 0u);

  agent.engine().commons().cache->unpin(key, "test");
  EXPECT_TRUE(eventually([&] {
    expectFile(source, second, 0, 1 * kMiB);
    return agent.await(agent.engine().contents().residency(wanted)).filesComplete != 0;
  }));
}

TEST(ThroughRead, AWarmJobFailsForWantOfRoomAndBreaksNoReader) {
  Origin origin;
  origin.add("model", 40 * kMiB);
  Agent agent("one", 16 * kMiB);
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  expectFile(source, origin, 0, 128u << 10);
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kOutOfSpace);
}

TEST(ThroughRead, AnEmptyFileNeedsNoRoom) {
  Origin origin;
  origin.add("empty", 0);
  origin.add("small", 100);
  Agent agent("one", 1);
  const auto dataset = agent.add(origin);
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  expectFile(source, origin, 0, 4096);
  expectFile(source, origin, 1, 4096);
  agent.beginWarm(dataset);
  EXPECT_EQ(agent.awaitWarm().error->code, ErrorCode::kOutOfSpace);
}

// An agent that cannot keep the chunks reads them from the agent that holds them, each as often as
// it is wanted.
TEST(ThroughRead, AnAgentReadsThroughFromPeersWhenTheOriginHasGone) {
  Origin origin;
  origin.add("model", 40 * kMiB + 12'345);
  Agent holder("a"), reader("b", 8 * kMiB);
  connect({&holder, &reader});
  holder.beginWarm(holder.add(origin));
  ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  const auto dataset = reader.add(origin);
  std::filesystem::rename(origin.folder(), origin.folder() + ".away");
  DatasetSource source(*reader.engine().commons().mounting, dataset, "test", false);
  for (const std::uint32_t step : {128u << 10, 1'000'000u})
    EXPECT_NO_FATAL_FAILURE(expectFile(source, origin, 0, step));
  std::filesystem::rename(origin.folder() + ".away", origin.folder());
  EXPECT_LE(usedBytes(reader), 8 * kMiB);
  const EngineStatistics statistics = reader.await(reader.engine().statistics());
  EXPECT_EQ(statistics.origin.bytes, 0u);
  EXPECT_GE(statistics.throughBytes, 32 * kMiB);
  EXPECT_TRUE(statistics.failedReads.empty());
}

TEST(ThroughRead, AgentsReadThroughOneAnotherAtTheSameTime) {
  Origin origin;
  for (int i = 0; i < 3; ++i) origin.add("file" + std::to_string(i), 30 * kMiB);
  Agent a("a", 20 * kMiB), b("b", 20 * kMiB);
  connect({&a, &b});
  std::vector<std::thread> readers;
  for (Agent* const agent : {&a, &b}) {
    auto source = std::make_shared<DatasetSource>(*agent->engine().commons().mounting,
                                                  agent->add(origin), "test", false);
    for (std::size_t reader = 0; reader < 4; ++reader) {
      readers.emplace_back([source, reader, &origin] {
        for (std::size_t i = 0; i < 3; ++i) expectFile(*source, origin, (reader + i) % 3, 300'000);
      });
    }
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_LE(usedBytes(a), 20 * kMiB);
  EXPECT_LE(usedBytes(b), 20 * kMiB);
}

// A disk that another program fills.
TEST(ThroughRead, ADiskThatOthersFillFailsNoReader) {
  if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
  TemporaryFolder disk;
  ASSERT_EQ(mount("tmpfs", disk.path().c_str(), "tmpfs", 0, "size=48m"), 0);
  {
    Origin origin;
    for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 16 * kMiB);
    Agent agent(
        "one", 4ull << 30, [](EngineEvent) {}, disk.path("cache"));
    DatasetSource source(*agent.engine().commons().mounting, agent.add(origin), "test", false);
    expectFile(source, origin, 0, 1 * kMiB);
    // The file is in use, so that it does not make room for the others.
    const auto held = source.openFile(*source.manifest().lookUp("file0"));
    std::ofstream other(disk.path("other"), std::ios::binary);
    const std::vector<char> block(1 * kMiB, 'x');
    while (other.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    for (std::size_t i = 0; i < 4; ++i) expectFile(source, origin, i, 1 * kMiB);
    EXPECT_NE(agent.await(agent.engine().statistics()).throughBytes, 0u);
  }
  umount2(disk.path().c_str(), MNT_DETACH);
}

// A real mount of a working set that is ten times the cache, and eight readers: in order, by mmap
// and anywhere. HEARTH_THROUGH_SECONDS makes it longer.
class ThroughMount : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::create_directory(folder_.path("mnt"));
    HolderOptions options;
    options.socketPath = folder_.path("holder");
    auto server = HolderServer::create(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    holder_ = std::thread([this] { server_->run(); });
    for (std::size_t i = 0; i < kFiles; ++i) {
      origin_.add("file" + std::to_string(i), kFileBytes);
      expected_.push_back(pattern(kFileBytes, static_cast<unsigned>(i + 1)));
    }
    agent_.emplace("one", [this](EngineOptions& options) {
      options.cacheDirectories.front().budgetBytes = kFiles * kFileBytes / 10;
      options.holder = folder_.path("holder");
    });
    MountOptions mounting;
    mounting.target = folder_.path("mnt");
    mounting.dataset = agent_->add(origin_);
    mounting.source = "test";
    const auto mounted = agent_->await(agent_->engine().mounts().mount(mounting));
    ASSERT_TRUE(mounted.ok()) << mounted.error().message;
  }
  void TearDown() override {
    if (agent_) (void)agent_->await(agent_->engine().mounts().unmount(folder_.path("mnt")));
    agent_.reset();
    if (!server_) return;
    server_->stop();
    holder_.join();
  }

  // One pass of a file in one of the ways; 0, or an errno, or -1 for wrong bytes.
  int pass(std::size_t file, unsigned way, std::mt19937_64& random) {
    const std::string path = folder_.path("mnt/file" + std::to_string(file));
    const int direct = way == 0 ? O_DIRECT : 0;
    const OwnedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | direct));
    if (!fd) return errno;
    const std::vector<char>& expected = expected_[file];
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (way == 1) return fuse_testing::compareMapped(path, expected);
    std::vector<char> buffer(512 << 10);
    const std::size_t reads = way == 2 ? 4 : kFileBytes / buffer.size();
    for (std::size_t i = 0; i < reads; ++i) {
      const std::size_t at = way == 2 ? random() % (kFileBytes - buffer.size()) : i * buffer.size();
      const ssize_t got = pread(fd.get(), buffer.data(), buffer.size(), static_cast<off_t>(at));
      if (got < 0) return errno;
      if (static_cast<std::size_t>(got) != buffer.size()) return -1;
      if (std::memcmp(buffer.data(), expected.data() + at, buffer.size()) != 0) return -1;
    }
    return 0;
  }

  static constexpr std::size_t kFiles = 8;
  static constexpr std::size_t kFileBytes = 24 * kMiB;
  TemporaryFolder folder_;
  std::unique_ptr<HolderServer> server_;
  std::thread holder_;
  Origin origin_;
  std::vector<std::vector<char>> expected_;
  std::optional<Agent> agent_;
};

TEST_F(ThroughMount, EightReadersOfTenTimesTheCache) {
  const char* const seconds = std::getenv("HEARTH_THROUGH_SECONDS");
  const auto until = Clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 5);
  std::atomic<int> passes{0};
  std::vector<int> failures(8, 0);
  std::vector<std::thread> readers;
  for (std::size_t reader = 0; reader < 8; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      // Each at least once, however slow the machine is.
      for (bool first = true; first || Clock::now() < until; first = false) {
        const int failed = pass(random() % kFiles, static_cast<unsigned>(random() % 3), random);
        if (failed != 0) failures[reader] = failed;
        ++passes;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(failures, std::vector<int>(8, 0));
  const EngineStatistics statistics = agent_->await(agent_->engine().statistics());
  EXPECT_TRUE(statistics.failedReads.empty());
  EXPECT_NE(statistics.throughBytes, 0u);
  EXPECT_LE(usedBytes(*agent_), kFiles * kFileBytes / 10);
  std::printf("%d passes, %.0f MiB read, %.0f MiB from the origin, %.0f MiB through\n",
              passes.load(), static_cast<double>(statistics.demandBytes) / kMiB,
              static_cast<double>(statistics.origin.bytes) / kMiB,
              static_cast<double>(statistics.throughBytes) / kMiB);
}

}  // namespace
}  // namespace hearth::testing_cluster
