// One agent waits for a chunk that another one is to bring.
#include <gtest/gtest.h>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "fetch/fetcher.h"

namespace hearth::testing_cluster {
namespace {

Task<Status> awaitFirstOnceItIsAskedFor(Engine& engine, ContentKey key) {
  Shard& shard = engine.commons().owner(key);
  co_await shard.reactor->enter();
  const auto asked = [&] {
    const std::shared_ptr<KeyFetch> fetch = shard.wanted->find(key);
    if (fetch == nullptr) return false;
    const auto flight = fetch->flights.find(0);
    return flight != fetch->flights.end() && flight->second->asking != nullptr;
  };
  while (!asked()) co_await shard.reactor->sleep(std::chrono::milliseconds(1));
  Task<Status> awaiting = shard.fetcher->awaitChunk(key, 0);
  const Status awaited = co_await awaiting;
  co_await engine.home().enter();
  co_return awaited;
}

// The directory may have told the others already that we fetch it. An agent that is slow to hear
// what it was granted must not lose it to who asks for it.
TEST(AwaitedChunk, IsWaitedForWhileItsAgentAsksForIt) {
  Origin origin;
  origin.add("model", 10'000'000);
  Agent agent("agent");
  const LoopbackServer silent;
  ClusterMember other = agent.member();
  other.identity.node = "silent";
  other.identity.addresses = {localAddress(silent.fd())};
  agent.setCluster({agent.member(), other});
  const auto dataset = agent.add(origin);
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  agent.beginWarm(dataset);
  const Status awaited = agent.await(awaitFirstOnceItIsAskedFor(agent.engine(), file.about.key));
  EXPECT_TRUE(awaited.ok()) << awaited.error().message;
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_GE(agent.await(agent.engine().statistics()).directoryUnanswered, 1u);
}

}  // namespace
}  // namespace hearth::testing_cluster
