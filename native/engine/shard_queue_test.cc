// Requests to a shard are bounded where they are let in, also while the shard is busy.
#include <future>

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

TEST(ShardQueue, ReadersOfABusyShardDoNotFillItsQueue) {
  Origin origin;
  origin.add("model", 8u << 20);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  const auto opened = source.openFile(entry);
  ASSERT_TRUE(opened.ok());

  std::promise<void> free;
  Shard& shard = agent.engine().commons().owner(dataset->manifest->entry(entry).key);
  shard.reactor->post([waiting = free.get_future().share()] { waiting.wait(); });
  for (int i = 0; i < 10'000; ++i) {
    (*opened)->willNeed(0, 8u << 20);
    EXPECT_TRUE((*opened)->tryRead(static_cast<std::uint64_t>(i % 64) << 16, 1u << 16).ok());
  }
  free.set_value();
  EXPECT_LE(agent.await(agent.engine().statistics()).longestQueue, 100u);
}

}  // namespace
}  // namespace hearth::testing_cluster
