// An engine that stops while programs wait for a volume that nobody leads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "engine/volume_calls.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::testing_cluster {
namespace {

const tree::WideId kWaitingVolume{3};

class VolumeShutdownTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::create_directory(target_);
    holder_.start();
    agent_ = std::make_unique<Agent>("a", [this](EngineOptions& options) {
      options.holder = holder_.socket();
      options.formerAgentsTimeout = std::chrono::milliseconds(0);  // one process
    });
    connect({agent_.get()});
  }
  void TearDown() override {
    umount2(target_.c_str(), MNT_FORCE | MNT_DETACH);
    agent_.reset();
    holder_.stop();
  }
  // Operations end by `deadline`.
  void setVolume(Clock::duration deadline) {
    const auto set = [](Engine& engine, Clock::duration by) -> Task<bool> {
      co_await engine.setVolumes(
          {{.id = kWaitingVolume, .store = {4}, .name = "kv", .deadline = by, .limits = {}}});
      co_return true;
    };
    agent_->await(set(agent_->engine(), deadline));
  }
  void mountVolume() {
    const auto mounted = agent_->await(agent_->engine().mounts().mountVolume(
        {.target = target_, .volume = kWaitingVolume, .source = "volume:kv"}));
    ASSERT_TRUE(mounted.ok()) << mounted.error().message;
  }
  [[nodiscard]] VolumeCalls& calls() { return agent_->engine().volumes(); }
  // Questions that have ended without a leader's answer.
  std::uint64_t failedQueries() {
    const std::shared_ptr<Volume> volume = calls().find(kWaitingVolume);
    const auto count = [](Volume& asked) -> Task<std::uint64_t> {
      co_await asked.shard.reactor->enter();
      std::uint64_t failed = 0;
      for (const CallCount& query : asked.client.counts().queries) failed += query.failed;
      co_return failed;
    };
    return runOn(*volume->shard.reactor, count(*volume));
  }

  TemporaryFolder folder_;
  const std::string target_ = folder_.path("mnt");
  TestingHolder holder_{folder_.path("holder.sock")};
  std::unique_ptr<Agent> agent_;
};

TEST_F(VolumeShutdownTest, EndsAndLeavesWhatWaitsToTheNextAgent) {
  setVolume(std::chrono::seconds(30));
  mountVolume();
  ASSERT_TRUE(agent_->await(calls().lead({kWaitingVolume, 1, std::int64_t{1} << 60})).ok());
  calls().setLeader(kWaitingVolume, {{"a", 1}});
  const std::string file = target_ + "/file";
  const int writer = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(writer, 0) << strerror(errno);
  ASSERT_EQ(write(writer, "bytes", 5), 5);
  ASSERT_TRUE(agent_->await(calls().resign(kWaitingVolume)).ok());
  calls().setLeader(kWaitingVolume, std::nullopt);
  setVolume(std::chrono::milliseconds(50));
  EXPECT_EQ(close(writer), -1);
  EXPECT_EQ(errno, ETIMEDOUT);
  std::thread program([&] {
    struct stat info {};
    while (stat(file.c_str(), &info) != 0 && errno == ETIMEDOUT) continue;
  });
  EXPECT_TRUE(eventually([&] { return failedQueries() > 3; }));
  // Neither the content that waits to be published nor the program holds it up.
  agent_->stop();
  // What the program asks is left to the next agent; here it ends with the mount.
  umount2(target_.c_str(), MNT_FORCE | MNT_DETACH);
  program.join();
}

}  // namespace
}  // namespace hearth::testing_cluster
