// One of two disks refuses writes: jobs end on the other.
#include "engine/testing_cluster.h"
#include "files/testing/faulty_file_system.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;
using testing_support::DiskFaults;
using testing_support::FaultyFileSystem;

class FailingDisk : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) origin.add("file" + std::to_string(i), 9'000'000);
  }
  // The disk that fails has nearly all of the room.
  std::unique_ptr<Agent> agentOnTwoDisks() {
    return std::make_unique<Agent>("one", [this](EngineOptions& options) {
      options.cacheDirectories = {{bad, std::uint64_t{1} << 40, 0},
                                  {good, std::uint64_t{1} << 30, 0}};
      options.files = [faults = faults](Reactor& reactor) {
        return std::make_unique<FaultyFileSystem>(reactor, faults);
      };
    });
  }
  void expectAllOnTheOther(Agent& agent, const Dataset& dataset) {
    for (const std::uint32_t entry : filesOf(*dataset.manifest)) {
      const auto file = agent.engine().commons().cache->find(dataset.manifest->entry(entry).key);
      ASSERT_NE(file, nullptr);
      EXPECT_TRUE(file->complete());
      EXPECT_TRUE(file->path().starts_with(good)) << file->path();
    }
  }

  TemporaryFolder folder;
  const std::string bad = folder.path() + "/bad", good = folder.path() + "/good";
  const std::shared_ptr<DiskFaults> faults = std::make_shared<DiskFaults>(bad);
  Origin origin;
};

TEST_F(FailingDisk, AJobEndsOnTheOther) {
  const auto agent = agentOnTwoDisks();
  const auto dataset = agent->add(origin);
  faults->setReadOnly(true);
  agent->beginWarm(dataset);
  const WarmProgress progress = agent->awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kSucceeded)
      << (progress.error ? progress.error->message : "");
  EXPECT_EQ(progress.bytesReady, origin.bytes());
  expectAllOnTheOther(*agent, *dataset);
  const CacheStatistics cache = agent->engine().commons().cache->statistics();
  EXPECT_NE(cache.directories[0].failure, "");
  EXPECT_EQ(cache.directories[1].failure, "");
  // The first directory would have its manifest.
  Origin later;
  for (int i = 0; i < 3; ++i) later.add("later" + std::to_string(i), 5'000'000);
  const auto second = agent->add(later);
  WarmOptions options;
  options.job = "later";
  options.entries = filesOf(*second->manifest);
  options.dataset = second;
  ASSERT_TRUE(agent->engine().warm(std::move(options)).ok());
  EXPECT_TRUE(eventually(
      [&] { return agent->engine().findJob("later")->progress().state == WarmState::kSucceeded; }));
  expectAllOnTheOther(*agent, *second);
}

TEST_F(FailingDisk, AnAgentStartsWithoutIt) {
  faults->setReadOnly(true);
  const auto agent = agentOnTwoDisks();
  const auto dataset = agent->add(origin);
  agent->beginWarm(dataset);
  ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  expectAllOnTheOther(*agent, *dataset);
}

}  // namespace
}  // namespace hearth
