// A dataset whose files lie in two cache directories is mounted at native speed, and says so. In a
// mount namespace of the test's own.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;

constexpr std::uint64_t kBudget = 1ull << 30;
constexpr std::size_t kFiles = 6;

class TwoDisksMountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    for (std::size_t file = 0; file < kFiles; ++file)
      origin.add("shard" + std::to_string(file), (9u << 20) + file);
    std::filesystem::create_directory(mnt);
    holder.start();
    agent = std::make_unique<Agent>("a", [this](EngineOptions& options) {
      options.holder = holder.socket();
      options.cacheDirectories = {{disks[0], kBudget, 0}, {disks[1], kBudget, 0}};
    });
    dataset = agent->add(origin);
    agent->beginWarm(dataset);
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
  void TearDown() override {
    agent.reset();
    holder.stop();
    umount2(mnt.c_str(), MNT_DETACH);
  }
  [[nodiscard]] std::size_t filesOn(const std::string& disk) const {
    std::size_t count = 0;
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      const auto file = agent->engine().commons().cache->find(dataset->manifest->entry(entry).key);
      count += file != nullptr && file->path().starts_with(disk) ? 1 : 0;
    }
    return count;
  }
  struct Listed {
    static Task<std::vector<MountInfo>> run(Engine& engine) { co_return engine.mounts().list(); }
  };

  TemporaryFolder folder;
  const std::vector<std::string> disks{folder.path("one"), folder.path("two")};
  const std::string mnt = folder.path("mnt");
  testing_cluster::TestingHolder holder{folder.path("holder.sock")};
  Origin origin;
  std::unique_ptr<Agent> agent;
  std::shared_ptr<Dataset> dataset;
};

TEST_F(TwoDisksMountTest, PassesAllFilesThroughAndSaysSo) {
  for (const std::string& disk : disks) EXPECT_GT(filesOn(disk), 0U) << disk;
  MountOptions options;
  options.target = mnt;
  options.dataset = dataset;
  options.source = "hearth:test";
  const Result<MountInfo> mounted = agent->await(agent->engine().mounts().mount(options));
  ASSERT_TRUE(mounted.ok()) << mounted.error().message;
  EXPECT_NE(mounted->reason.find("several cache directories"), std::string::npos)
      << mounted->reason;
  for (const std::string& name : origin.names()) {
    std::ifstream file(mnt + "/" + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_TRUE(bytes == origin.bytesOf(name)) << name;
  }
  const std::vector<MountInfo> listed = agent->await(Listed::run(agent->engine()));
  ASSERT_EQ(listed.size(), 1U);
  if (listed[0].dataPath == "daemon") GTEST_SKIP() << listed[0].reason;
  EXPECT_EQ(listed[0].dataPath, "fuse");
  EXPECT_EQ(listed[0].passthroughOpens, kFiles);
  EXPECT_EQ(listed[0].daemonOpens, 0U);
  EXPECT_EQ(listed[0].readsServed, 0U) << "the kernel reads the cache files";
}

}  // namespace
}  // namespace hearth
