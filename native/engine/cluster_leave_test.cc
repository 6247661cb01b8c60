// Log lines about copies that were lost.
#include "engine/cluster_leave.h"

#include <gmock/gmock.h>

#include <mutex>

#include "base/testing/moved_clock.h"
#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

using testing::HasSubstr;

class ClusterLeaveTest : public testing::Test {
 protected:
  void SetUp() override {
    onHome([this] { leave.start(agent.engine().home()); });
  }
  void TearDown() override {
    onHome([this] { leave.stop(); });
  }
  // Ends after the shard has run it.
  void onHome(const std::function<void()>& function) {
    const auto run = [](std::function<void()> call) -> Task<bool> {
      call();
      co_return true;
    };
    agent.await(run(function));
  }
  void lose(std::size_t count) {
    ClusterCopies::Copy copy{.size = 1};
    copy.verdict = CopyVerdict::kLast;
    leave.evicted(std::vector(count, copy));
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex);
    return said;
  }

  std::mutex mutex;
  std::vector<std::string> said;
  Agent agent{"n0", 4u << 20, [this](EngineEvent event) {
                const std::lock_guard lock(mutex);
                if (event.message.find("last copy") != std::string::npos)
                  said.push_back(event.message);
              }};
  ClusterLeave leave{agent.engine().commons()};
};

TEST_F(ClusterLeaveTest, TheNextLineReportsAllLossesSinceTheLast) {
  lose(1);
  ASSERT_TRUE(eventually([this] { return lines().size() == 1; }));
  EXPECT_THAT(lines().back(), HasSubstr("1 were the last copy"));
  lose(2);
  lose(3);
  moveClock(ClusterLeave::kBetweenLines);
  onHome([] {});
  ASSERT_TRUE(eventually([this] { return lines().size() == 2; }));
  EXPECT_THAT(lines().back(), HasSubstr("5 were the last copy"));
}

TEST_F(ClusterLeaveTest, TheLastLineComesWhenTheEngineStops) {
  lose(1);
  ASSERT_TRUE(eventually([this] { return lines().size() == 1; }));
  lose(4);
  onHome([this] { leave.stop(); });
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT(lines().back(), HasSubstr("4 were the last copy"));
}

}  // namespace
}  // namespace hearth::testing_cluster
