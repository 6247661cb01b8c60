// Changes of a volume that are answered before the disk has them.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "engine/volume_calls.h"
#include "files/testing/held_back_file_system.h"
#include "volume/testing/tmpfs_folder.h"

namespace hearth::testing_cluster {
namespace {

using testing_support::DiskControl;
using testing_support::TmpfsFolder;

const tree::WideId kVolumeId{3};
constexpr std::int64_t kForEver = std::int64_t{1} << 60;

// An agent that leads a volume, with tails in this folder.
struct Leader {
  std::shared_ptr<DiskControl> disk = std::make_shared<DiskControl>();
  std::atomic<int> warnings{0};
  const TemporaryFolder own;
  Agent agent;

  Leader(const std::string& tails, std::uint64_t epoch, const std::string& cache = {})
      : agent(
            "a", 4ull << 30,
            [this](const EngineEvent& event) {
              if (event.message.find("tail") != std::string::npos) ++warnings;
            },
            cache.empty() ? own.path("cache") : cache,
            [this, tails](EngineOptions& options) {
              options.volumeTails = tails;
              options.files = [disk = disk](Reactor& reactor) {
                return std::make_unique<testing_support::HeldBackFileSystem>(reactor, disk);
              };
            }) {
    agent.setCluster({agent.member()});
    set({{.id = kVolumeId, .store = {4}, .name = "kv", .deadline = std::chrono::seconds(30)}});
    lead(epoch);
  }
  void lead(std::uint64_t epoch) {
    EXPECT_TRUE(agent.await(calls().lead({kVolumeId, epoch, kForEver})).ok());
    calls().setLeader(kVolumeId, {{"a", epoch}});
  }
  void set(std::vector<VolumeOptions> volumes) {
    const auto all = [](VolumeCalls& to, std::vector<VolumeOptions> given) -> Task<bool> {
      co_await to.set(std::move(given));
      co_return true;
    };
    agent.await(all(calls(), std::move(volumes)));
  }
  VolumeCalls& calls() { return agent.engine().volumes(); }
  std::int32_t create(const std::string& name) {
    const std::shared_ptr<Volume> volume = calls().find(kVolumeId);
    tree::Create change{.place = {tree::kRootInode, name}, .exclusive = true};
    return runOn(*volume->shard.reactor, volume->client.change(std::move(change))).answer.error;
  }
};

std::size_t filesIn(const std::string& folder) {
  if (!std::filesystem::exists(folder)) return 0;
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(VolumeTails, AKilledLeaderLeavesTheAnswersOfADiskThatWroteNothing) {
  const TmpfsFolder tmpfs;
  const TemporaryFolder folder;
  const std::string cache = folder.path("cache"), tails = tmpfs.path() + "/volumes";
  constexpr int kFiles = 50;
  AgentBefore before([&](const std::function<void()>& live) {
    Leader a(tails, 1, cache);
    EXPECT_EQ(a.create("first"), 0);
    a.disk->stopped = true;
    for (int i = 0; i < kFiles; ++i) EXPECT_EQ(a.create("f" + std::to_string(i)), 0);
    live();
  });
  before.run();
  before.kill();
  Leader a(tails, 2, cache);
  for (int i = 0; i < kFiles; ++i) EXPECT_EQ(a.create("f" + std::to_string(i)), EEXIST) << i;
  EXPECT_EQ(a.create("g"), 0);
  EXPECT_EQ(a.warnings, 0);
}

TEST(VolumeTails, BelongToOneAgentAndGoWithTheVolume) {
  const TmpfsFolder tmpfs;
  const std::string tails = tmpfs.path() + "/volumes";
  Leader a(tails, 1);
  EXPECT_EQ(filesIn(tails), 1u);
  const Leader b(tails, 1);
  EXPECT_EQ(filesIn(tails), 2u);
  a.set({});
  EXPECT_TRUE(a.agent.await(a.calls().remove(kVolumeId)).ok());
  EXPECT_EQ(filesIn(tails), 1u);
}

TEST(VolumeTails, AnAgentWithoutATmpfsSaysSoOnce) {
  Leader a("/proc/hearth", 1);
  EXPECT_EQ(a.create("f"), 0);
  a.lead(2);
  EXPECT_EQ(a.create("g"), 0);
  EXPECT_EQ(a.warnings, 1);
}

}  // namespace
}  // namespace hearth::testing_cluster
