// WILLNEED for the cluster: one agent brings each chunk that no agent holds.
#include "engine/testing_cluster.h"
#include "warm/cluster_share.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kAdvisedFile = (9u << 20) + 17;

class ClusterAdviceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 12; ++i) origin.add("part" + std::to_string(100 + i), kAdvisedFile);
    connect({&a, &b, &c});
    for (Agent* const agent : agents) datasets.push_back(agent->add(origin));
  }
  void begin(std::size_t who, std::vector<std::uint32_t> entries) {
    WarmOptions options;
    options.job = "warm";
    options.dataset = datasets[who];
    options.entries = std::move(entries);
    options.verify = Verification::kNone;
    options.scope = WarmScope::kCluster;
    ASSERT_TRUE(agents[who]->engine().warm(std::move(options)).ok());
  }
  std::vector<std::uint32_t> files() { return filesOf(*datasets.front()->manifest); }
  std::uint64_t resident(std::size_t who) {
    return agents[who]
        ->await(agents[who]->engine().contents().residency(datasets[who]))
        .bytesResident;
  }

  Origin origin;
  Agent a{"a"}, b{"b"}, c{"c"};
  const std::vector<Agent*> agents{&a, &b, &c};
  std::vector<std::shared_ptr<Dataset>> datasets;
};

TEST_F(ClusterAdviceTest, BringsNothingThatAnotherAgentHolds) {
  const std::vector<std::uint32_t> all = files();
  begin(0, {all.begin(), all.begin() + 5});
  ASSERT_EQ(a.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(resident(0), 5 * kAdvisedFile);
  begin(1, all);
  const WarmProgress progress = b.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded);
  EXPECT_EQ(progress.bytesReady, 12 * kAdvisedFile);
  EXPECT_EQ(progress.filesReady, 12u);
  if (undisturbed(agents)) {
    EXPECT_EQ(progress.originBytes, 7 * kAdvisedFile);
    EXPECT_EQ(progress.peerBytes, 0u);
    EXPECT_EQ(resident(1), 7 * kAdvisedFile);
  }
}

// The directory may still name an agent that has evicted the file.
TEST_F(ClusterAdviceTest, BringsChunksThatAHolderHasEvicted) {
  begin(0, files());
  ASSERT_EQ(a.awaitWarm().state, WarmState::kSucceeded);
  const ContentKey key = datasets[0]->manifest->entry(files().front()).key;
  struct Evict {
    static Task<Result<EvictOutcome>> run(Engine& engine, ContentKey key) {
      co_await engine.commons().owner(key).reactor->enter();
      const Result<EvictOutcome> outcome = co_await engine.commons().cache->evict(key);
      co_await engine.home().enter();
      co_return outcome;
    }
  };
  ASSERT_TRUE(eventually([&] {
    const auto outcome = a.await(Evict::run(a.engine(), key));
    return outcome.ok() && *outcome == EvictOutcome::kEvicted;
  }));
  begin(1, files());
  ASSERT_EQ(b.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_GE(resident(1), kAdvisedFile);
  if (undisturbed(agents)) {
    EXPECT_EQ(resident(1), kAdvisedFile);
  }
}

TEST_F(ClusterAdviceTest, AgentsDivideTheFiles) {
  const std::vector<std::string> names{"a", "b", "c"};
  std::vector<std::uint32_t> divided;
  for (std::size_t who = 0; who < agents.size(); ++who) {
    const auto share = shareOf(names[who], names, *datasets[who]->manifest, files());
    divided.insert(divided.end(), share.begin(), share.end());
    begin(who, share);
  }
  std::sort(divided.begin(), divided.end());
  EXPECT_EQ(divided, files());
  for (Agent* const agent : agents) ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  const std::uint64_t all = resident(0) + resident(1) + resident(2);
  EXPECT_GE(all, 12 * kAdvisedFile);
  if (undisturbed(agents)) {
    EXPECT_EQ(all, 12 * kAdvisedFile);
  }
  EXPECT_EQ(shareOf("d", names, *datasets[0]->manifest, files()), files());
}

}  // namespace
}  // namespace hearth::testing_cluster
