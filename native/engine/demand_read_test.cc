// Readers who want chunks that background work is about to fetch.
#include <future>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

// True: the chunk is on its way.
bool underWay(Agent& agent, const std::shared_ptr<Dataset>& dataset, std::uint32_t chunk) {
  struct Look {
    static Task<bool> at(Engine& engine, ContentKey key, std::uint32_t which) {
      Shard& owner = engine.commons().owner(key);
      co_await owner.reactor->enter();
      const auto fetch = owner.wanted->find(key);
      const bool found = fetch != nullptr && fetch->flights.contains(which);
      co_await engine.home().enter();
      co_return found;
    }
  };
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  return agent.await(Look::at(agent.engine(), dataset->manifest->entry(entry).key, chunk));
}

TEST(DemandRead, DoesNotWaitForTheRateOfAJobThatFetchesTheSame) {
  constexpr std::uint64_t kSize = 60u << 20;
  Origin origin;
  origin.add("model", kSize);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  WarmOptions options;
  options.job = "warm";
  options.dataset = dataset;
  options.entries = {entry};
  options.rateLimit = 5'000;  // hours for the whole file
  ASSERT_TRUE(agent.engine().warm(options).ok());
  const auto last = static_cast<std::uint32_t>(kSize / kChunkBytes - 1);
  ASSERT_TRUE(eventually([&] { return underWay(agent, dataset, last); }));
  auto reading = std::async(std::launch::async, [&] {
    return agent.await(agent.engine().contents().read(dataset, entry, kSize - 1000, 1000));
  });
  EXPECT_EQ(reading.wait_for(kHang), std::future_status::ready);
  // Two chunks were read for the reader, and are owed now: nothing more comes for half an hour.
  const WarmProgress progress = agent.engine().findJob("warm")->progress();
  EXPECT_EQ(progress.state, WarmState::kRunning);
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  const auto bytes = reading.get();
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  EXPECT_EQ(bytes->size(), 1000u);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kCancelled);
}

TEST(DemandRead, GoesOnWhenTheJobThatBeganItIsCancelled) {
  constexpr std::uint64_t kSize = 8u << 20;
  Origin origin;
  origin.add("model", kSize);
  Agent agent("one");
  // The agent does not know the location of the bytes yet.
  const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
  ASSERT_TRUE(added.ok());
  const auto dataset = *added;
  agent.beginWarm(dataset);
  ASSERT_TRUE(eventually([&] { return underWay(agent, dataset, 0); }));
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  auto reading = std::async(std::launch::async, [&] {
    return agent.await(agent.engine().contents().read(dataset, entry, 0, 1000));
  });
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  Location base;
  base.path = origin.folder();
  base.below = base.path;
  dataset->locations.setBase(std::move(base));
  const auto bytes = reading.get();
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
}

}  // namespace
}  // namespace hearth::testing_cluster
