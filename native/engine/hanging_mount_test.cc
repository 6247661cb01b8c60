// Mount points on a file system that does not answer: only mount(2) and umount(2) hang.
#include <gtest/gtest.h>

#include <future>

#include "engine/testing_cluster.h"
#include "fuse/testing/mount_fixture.h"
#include "holder/testing/dead_mount.h"

namespace hearth::testing_cluster {
namespace {

using holder_testing::DeadMount;

constexpr auto kNever = std::chrono::minutes(10);  // longer than any test may take
constexpr auto kSoon = std::chrono::milliseconds(50);

// Processes that this one has started and not yet awaited.
int children() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(thread.path() / "children");
    for (int child = 0; list >> child;) ++count;
  }
  return count;
}

class HangingMountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    agent = std::make_unique<Agent>("one");  // its threads are in the present mount namespace
    origin.add("model", 100'000);
    dataset = agent->add(origin);
    agent->beginWarm(dataset);
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
    std::filesystem::create_directories(folder.path("above/view"));
    before = children();
  }
  std::unique_ptr<Mounts> mountsWith(std::chrono::milliseconds deadline) {
    Engine& engine = agent->engine();
    return std::make_unique<Mounts>(*engine.commons().mounting, engine.manifests(), deadline);
  }
  [[nodiscard]] MountOptions view(const std::string& below) const {
    MountOptions options;
    options.target = folder.path(below);
    options.dataset = dataset;
    options.source = "hearth:test";
    options.path = MountOptions::Path::kView;
    return options;
  }
  // Waits until so many calls of ours hang in the kernel.
  void awaitHanging(int calls) const {
    while (children() < before + calls) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // A call on a name by the home shard, as each of its opens.
  Status quickCall() {
    struct Run {
      static Task<Status> open(FileSystem& files, std::string path) {
        Task<Result<std::unique_ptr<File>>> opening =
            files.open(std::move(path), {.write = true, .create = true});
        const Result<std::unique_ptr<File>> file = co_await opening;
        co_return file.ok() ? Status() : Status(file.error());
      }
    };
    return agent->await(
        Run::open(*agent->engine().commons().shards.front()->files, folder.path("quick")));
  }
  [[nodiscard]] std::size_t published() {
    return agent->engine().commons().cache->published().size();
  }
  template <class T>
  static bool ended(const std::future<T>& call) {
    return call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  TemporaryFolder folder;
  Origin origin;
  std::unique_ptr<Agent> agent;
  std::shared_ptr<Dataset> dataset;
  int before = 0;
};

// More binds than the shard has helper threads.
TEST_F(HangingMountTest, BindsHoldUpNoCallOfTheShard) {
  const auto mounts = mountsWith(kNever);
  DeadMount dead(folder.path("above"));
  ASSERT_TRUE(dead.mounted());
  std::vector<std::future<Result<MountInfo>>> calls;
  for (int i = 0; i < 8; ++i) {
    calls.push_back(std::async(std::launch::async, [&, i] {
      return agent->await(mounts->mount(view("above/" + std::to_string(i))));
    }));
  }
  awaitHanging(4);
  EXPECT_TRUE(quickCall().ok());
  for (const auto& call : calls) EXPECT_FALSE(ended(call));
  dead.end();
  for (auto& call : calls) EXPECT_FALSE(call.get().ok());
  EXPECT_EQ(published(), 0u);
}

TEST_F(HangingMountTest, ABindIsReportedAndLeavesNothing) {
  const auto mounts = mountsWith(kSoon);
  const DeadMount dead(folder.path("above"));
  ASSERT_TRUE(dead.mounted());
  const Result<MountInfo> bound = agent->await(mounts->mount(view("above/view")));
  EXPECT_EQ(bound.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(bound.error().message.find(folder.path("above/view")), std::string::npos);
  EXPECT_EQ(published(), 0u);
  EXPECT_TRUE(mounts->list().empty());
}

TEST_F(HangingMountTest, AnUnmountIsReportedAndCanBeTriedAgain) {
  const auto patient = mountsWith(kNever);
  ASSERT_TRUE(agent->await(patient->mount(view("above/view"))).ok());
  const std::string target = folder.path("above/view");
  const auto mounts = mountsWith(kSoon);
  EXPECT_FALSE(agent->await(mounts->resume()).ok()) << "there is no holder";
  ASSERT_EQ(mounts->list().size(), 1u) << "the view is taken over all the same";
  DeadMount dead(folder.path("above"));
  ASSERT_TRUE(dead.mounted());
  const Status failed = agent->await(mounts->unmount(target));
  EXPECT_EQ(failed.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(failed.error().message.find(target), std::string::npos);
  EXPECT_EQ(mounts->list().size(), 1u);
  EXPECT_EQ(published(), 1u) << "what is mounted is kept";

  auto hanging =
      std::async(std::launch::async, [&] { return agent->await(patient->unmount(target)); });
  awaitHanging(1);
  EXPECT_TRUE(quickCall().ok());
  EXPECT_FALSE(ended(hanging));
  dead.end();
  // The bind may have looked at the path only now, and found it.
  if (!hanging.get().ok()) {
    EXPECT_TRUE(agent->await(patient->unmount(target)).ok());
  }
  EXPECT_TRUE(patient->list().empty());
  EXPECT_EQ(published(), 0u);
}

}  // namespace
}  // namespace hearth::testing_cluster
