// Mounts of a volume that are asked for more than once at the same time.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <atomic>
#include <filesystem>

#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::testing_cluster {
namespace {

// Enough to have some on each shard.
constexpr std::uint8_t kVolumes = 8;

class VolumeMountsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    for (std::uint8_t i = 0; i < kVolumes; ++i) std::filesystem::create_directory(target(i));
    holder_.start();
    start();
  }
  void TearDown() override {
    for (std::uint8_t i = 0; i < kVolumes; ++i) umount2(target(i).c_str(), MNT_FORCE | MNT_DETACH);
    agent_.reset();
    holder_.stop();
  }
  [[nodiscard]] std::string target(std::uint8_t volume) const {
    return folder_.path("mnt" + std::to_string(volume));
  }
  // An agent that knows the volumes; what the holder has of them is taken over in the background.
  void start() {
    agent_.reset();
    agent_ = std::make_unique<Agent>("a", [this](EngineOptions& options) {
      options.holder = holder_.socket();
      options.formerAgentsTimeout = std::chrono::milliseconds(0);  // one process
    });
    connect({agent_.get()});
    const auto set = [](Engine& engine) -> Task<bool> {
      std::vector<VolumeOptions> volumes(kVolumes);
      for (std::uint8_t i = 0; i < kVolumes; ++i) {
        volumes[i] = {.id = {i}, .store = {4}, .name = "kv" + std::to_string(i), .limits = {}};
        volumes[i].deadline = std::chrono::milliseconds(50);
      }
      co_await engine.setVolumes(std::move(volumes));
      co_return true;
    };
    agent_->await(set(agent_->engine()));
  }
  void mountTwiceAtOnce() {
    std::atomic<int> mounted{0};
    std::atomic<int> failed{0};
    const auto mount = [&](Engine& engine, std::uint8_t volume) -> Task<void> {
      const auto made = co_await engine.mounts().mountVolume(
          {.target = target(volume), .volume = {volume}, .source = "volume:kv"});
      ++(made.ok() ? mounted : failed);
    };
    const auto begin = [&mount](Engine& engine) -> Task<bool> {
      for (std::uint8_t i = 0; i < 2 * kVolumes; ++i) spawn(mount(engine, i % kVolumes));
      co_return true;
    };
    agent_->await(begin(agent_->engine()));
    ASSERT_TRUE(eventually([&] { return mounted + failed == 2 * kVolumes; }));
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(agent_->engine().mounts().list().size(), kVolumes);
  }

  TemporaryFolder folder_;
  TestingHolder holder_{folder_.path("holder.sock")};
  std::unique_ptr<Agent> agent_;
};

TEST_F(VolumeMountsTest, AreOneWhenTheyAreAskedForTwiceAtOnce) { mountTwiceAtOnce(); }

TEST_F(VolumeMountsTest, AreOneWhileTheyAreTakenOver) {
  mountTwiceAtOnce();
  start();
  mountTwiceAtOnce();
}

}  // namespace
}  // namespace hearth::testing_cluster
