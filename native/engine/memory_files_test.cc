// Whole files in memory, with a real holder and real mounts: who reads them, what keeps them, and
// who finds them again. In a mount namespace of the test's own.
#include "memory_files/memory_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fuse/testing/mount_fixture.h"
#include "mount/holder_link.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::AgentBefore;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;

constexpr std::uint64_t kBudget = 32u << 20;
// The arena, the budget and the folder's overhead.
constexpr std::uint64_t kTouchBytes = 1u << 30;

class MemoryFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::create_directory(mnt());
    origin_.add("model", (9 << 20) + 5);
    origin_.add("second", 5 << 20);
    origin_.add("small", 1000);
    holder_.start(kTouchBytes);
  }
  void TearDown() override {
    agent_.reset();
    holder_.stop();
    umount2(mnt().c_str(), MNT_DETACH);
  }
  void startAgent(std::uint64_t memoryBytes = kBudget,
                  std::chrono::milliseconds holderTimeout = std::chrono::milliseconds(0)) {
    const auto adjust = [this, memoryBytes, holderTimeout](EngineOptions& options) {
      options.holder = holder_.socket();
      options.memoryBytes = memoryBytes;
      options.holderTimeout = holderTimeout;
      options.formerAgentsTimeout = std::chrono::milliseconds(100);
      options.scrub.bytesPerSecond = 0;
    };
    agent_ = std::make_unique<Agent>(
        "a", 4ull << 30, [](EngineEvent) {}, folder_.path("cache"), adjust);
    testing_cluster::connect({agent_.get()});
  }
  void warm(const Origin& origin, MemoryRank rank = MemoryRank::kWarm) {
    WarmOptions options;
    options.job = "warm";
    options.dataset = agent_->add(origin);
    options.entries = filesOf(*options.dataset->manifest);
    options.memory = rank;
    ASSERT_TRUE(agent_->engine().warm(std::move(options)).ok());
    ASSERT_EQ(agent_->awaitWarm().state, WarmState::kSucceeded);
    ASSERT_TRUE(agent_->engine().cancelWarm("warm").ok());  // forgets it
  }
  MemoryFilesUse use() { return agent_->await(agent_->engine().statistics()).memoryFiles; }
  MountInfo mount(const Origin& origin, MountOptions::Path path = MountOptions::Path::kAuto) {
    MountOptions options;
    options.target = mnt();
    options.dataset = agent_->add(origin);
    options.source = "hearth:test";
    options.path = path;
    const Result<MountInfo> mounted = agent_->await(agent_->engine().mounts().mount(options));
    EXPECT_TRUE(mounted.ok()) << mounted.error().message;
    return mounted.ok() ? *mounted : MountInfo{};
  }
  [[nodiscard]] std::string mnt() const { return folder_.path("mnt"); }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(mnt() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  // From now on the disk gives wrong bytes: whoever reads right ones has not read it.
  void spoilDisk(const Origin& origin) {
    const std::shared_ptr<Dataset> dataset = agent_->add(origin);
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      const std::string key = dataset->manifest->entry(entry).key.hex();
      const std::string path = folder_.path("cache/objects/" + key.substr(0, 2) + "/" + key);
      std::filesystem::permissions(path, std::filesystem::perms::owner_all);
      std::ofstream file(path, std::ios::binary | std::ios::in);
      const std::vector<char> zeros(dataset->manifest->entry(entry).size);
      file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
    }
  }

  TemporaryFolder folder_;
  testing_cluster::TestingHolder holder_{folder_.path("holder.sock")};
  Origin origin_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(MemoryFilesTest, AMountReadsThemAfterAWarmJob) {
  startAgent();
  warm(origin_);
  EXPECT_EQ(use().room.files, 2u);
  EXPECT_EQ(use().failure, "");
  spoilDisk(origin_);
  EXPECT_EQ(mount(origin_).dataPath, "fuse");
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
  EXPECT_TRUE(read("second") == origin_.bytesOf("second"));
}

TEST_F(MemoryFilesTest, WithoutABudgetTheDiskIsMountedAsBefore) {
  startAgent(0);
  warm(origin_);
  EXPECT_EQ(use().off, "engine.memoryBytes is 0");
  EXPECT_EQ(mount(origin_).dataPath, "view");
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
}

TEST_F(MemoryFilesTest, WithoutAHolderTheDiskIsUsedAndTheReasonShown) {
  holder_.stop();
  startAgent();
  warm(origin_);
  EXPECT_NE(use().off, "");
  EXPECT_EQ(mount(origin_).dataPath, "view");
}

TEST_F(MemoryFilesTest, AnAgentPaysForThemWhereTheHolderTouchesNoMemory) {
  holder_.stop();
  holder_.start();
  startAgent();
  warm(origin_);
  EXPECT_EQ(use().failure, "");
  EXPECT_EQ(use().room.files, 2u);
}

TEST_F(MemoryFilesTest, AFileThatIsOpenedAgainComesToMemory) {
  startAgent(0);
  warm(origin_);
  agent_.reset();
  startAgent();
  mount(origin_, MountOptions::Path::kFuse);
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
  EXPECT_EQ(use().room.files, 0u);
  // An open while the first one is not released yet is none of its own.
  EXPECT_TRUE(eventually([&] { return !read("model").empty() && use().room.files == 1; }));
}

TEST_F(MemoryFilesTest, AFileThatDoesNotFitStaysOnTheDisk) {
  startAgent(10 << 20);
  warm(origin_);
  EXPECT_EQ(use().room.files, 1u);
  EXPECT_GT(use().refusedFiles, 0u);
  EXPECT_EQ(mount(origin_).dataPath, "fuse");
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
  EXPECT_TRUE(read("second") == origin_.bytesOf("second"));
}

TEST_F(MemoryFilesTest, AMappedFileStaysWhileOthersGo) {
  startAgent();
  warm(origin_);
  mount(origin_);
  const int file = open((mnt() + "/model").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const std::string expected = origin_.bytesOf("model");
  void* const mapped = mmap(nullptr, expected.size(), PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  close(file);
  EXPECT_TRUE(read("second") == origin_.bytesOf("second"));
  // The mapping alone keeps the file that was used longest ago, so the other one goes.
  Origin other;
  other.add("other", 20 << 20);
  ASSERT_TRUE(eventually([&] {
    agent_->await(agent_->engine().contents().evict(agent_->add(other), {}));
    warm(other);
    return use().evictedFiles == 1;
  }));
  EXPECT_GT(use().heldFiles, 0u);
  EXPECT_EQ(std::memcmp(mapped, expected.data(), expected.size()), 0);
  munmap(mapped, expected.size());
}

TEST_F(MemoryFilesTest, EvictingADatasetTakesItsFilesOutOfMemory) {
  startAgent();
  warm(origin_);
  agent_->await(agent_->engine().contents().evict(agent_->add(origin_), {}));
  EXPECT_EQ(use().room.usedBytes, 0u);
  EXPECT_EQ(use().room.files, 0u);
}

TEST_F(MemoryFilesTest, PeersReadThem) {
  startAgent();
  warm(origin_);
  spoilDisk(origin_);
  Agent other("b");
  testing_cluster::connect({agent_.get(), &other});
  const std::shared_ptr<Dataset> dataset = other.add(origin_);
  for (const std::string& name : origin_.names()) {
    if (name != "small") std::filesystem::remove(origin_.folder() + "/" + name);
  }
  WarmOptions options;
  options.job = "warm";
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  ASSERT_TRUE(other.engine().warm(std::move(options)).ok());
  const WarmProgress progress = other.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded)
      << (progress.error ? progress.error->message : "");
}

TEST_F(MemoryFilesTest, TheNextAgentFindsThem) {
  startAgent();
  warm(origin_);
  agent_.reset();
  startAgent();
  EXPECT_EQ(use().room.files, 2u);
  spoilDisk(origin_);
  mount(origin_);
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
}

TEST_F(MemoryFilesTest, ASmallerBudgetBeginsAnewAndNoneGivesTheMemoryBack) {
  Origin large;
  large.add("large", 80 << 20);  // more than the smaller budget and the folder's overhead
  startAgent(96u << 20);
  warm(large);
  EXPECT_EQ(use().room.files, 1u);
  agent_.reset();
  startAgent(8u << 20);
  EXPECT_EQ(use().off, "");
  EXPECT_EQ(use().room.files, 0u);
  agent_.reset();
  startAgent(0);
  const std::shared_ptr<HolderClient> holder = agent_->engine().commons().holder->client();
  ASSERT_NE(holder, nullptr);
  EXPECT_EQ(holder->dropMemory("files").code(), ErrorCode::kNotFound);
}

TEST_F(MemoryFilesTest, AnEngineWaitsForAHolderThatStartsBesideIt) {
  holder_.stop();
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    holder_.start(kTouchBytes);
  });
  startAgent(kBudget, std::chrono::minutes(1));
  later.join();
  EXPECT_EQ(use().off, "");
}

TEST_F(MemoryFilesTest, AHigherRankIsKeptForTheNextAgent) {
  Origin other;
  other.add("other", 30 << 20);
  startAgent();
  warm(origin_);
  warm(origin_, MemoryRank::kMemory);
  for (int agents = 0; agents < 2; ++agents) {
    warm(other);
    EXPECT_EQ(use().room.files, 2u) << "files of a lower rank took their room";
    EXPECT_NE(use().failure, "");
    agent_.reset();
    startAgent();
  }
}

TEST_F(MemoryFilesTest, TheNextHolderGetsThem) {
  startAgent();
  warm(origin_);
  holder_.stop();
  holder_.start(kTouchBytes);
  ASSERT_TRUE(eventually([&] { return agent_->engine().commons().holder->keeps("files").ok(); }));
  agent_.reset();
  startAgent();
  EXPECT_EQ(use().room.files, 2u);
  spoilDisk(origin_);
  mount(origin_);
  EXPECT_TRUE(read("model") == origin_.bytesOf("model"));
}

}  // namespace
}  // namespace hearth
