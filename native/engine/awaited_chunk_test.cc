// One agent waits for a chunk that another one brings.
#include <gtest/gtest.h>

#include <future>

#include "directory/directory_message.h"
#include "directory/directory_service.h"
#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "fetch/fetcher.h"

namespace hearth::testing_cluster {
namespace {

// Knows of an agent that never answers.
struct BesideASilentOne {
  explicit BesideASilentOne(Agent& agent) {
    ClusterMember other = agent.member();
    other.identity.node = "silent";
    other.identity.addresses = {localAddress(server.fd())};
    agent.setCluster({agent.member(), other});
  }
  const LoopbackServer server;
};

// Waits for the first chunk, as another agent does. Ends at home.
Task<Status> awaitFirstOnceItIsAskedFor(Engine& engine, ContentKey key) {
  Shard& shard = engine.commons().owner(key);
  co_await shard.reactor->enter();
  const auto asked = [&] {
    const std::shared_ptr<KeyFetch> fetch = shard.wanted->find(key);
    if (fetch == nullptr) return false;
    const auto flight = fetch->flights.find(0);
    return flight != fetch->flights.end() && flight->second->state() == ChunkFlight::State::kAsking;
  };
  while (!asked()) co_await shard.reactor->sleep(std::chrono::milliseconds(1));
  const Status awaited = co_await shard.fetcher->awaitChunk(key, 0);
  co_await engine.home().enter();
  co_return awaited;
}

// The directory may have named us to others before we hear of the grant. An agent that hears late
// must not lose the chunk to an agent that asks it.
TEST(AwaitedChunk, IsAwaitedWhileItsAgentAsksForIt) {
  Origin origin;
  origin.add("model", 10'000'000);
  Agent agent("agent");
  const BesideASilentOne silent(agent);
  const auto dataset = agent.add(origin);
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  agent.beginWarm(dataset);
  const Status awaited = agent.await(awaitFirstOnceItIsAskedFor(agent.engine(), file.about.key));
  EXPECT_TRUE(awaited.ok()) << awaited.error().message;
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_GE(agent.await(agent.engine().statistics()).directoryUnanswered, 1u);
}

// A background read from a holder that has hung. The test holds back its requests to the origin.
struct HeldBack {
  std::shared_ptr<RateLimiter> rate = std::make_shared<RateLimiter>(1);

  static Task<void> fetch(Shard& shard, std::shared_ptr<FileFetch> file, FetchOptions options) {
    [[maybe_unused]] const Status ensured =
        co_await shard.fetcher->ensure(std::move(file), 0, 1, std::move(options));
  }
  // Returns the status of awaitChunk(), and whether the chunk is still on its way then.
  Task<std::pair<Status, bool>> awaitWhatFails(Engine& engine, FileReference reference) {
    Shard& shard = engine.commons().owner(reference.about.key);
    co_await shard.reactor->enter();
    DirectoryRequest request{.key = reference.about.key, .size = reference.about.size};
    [[maybe_unused]] const LocateAnswer unused =
        co_await shard.directoryService->locate("silent", request);
    request.chunks = 1;
    const DirectoryUpdate update{DirectoryMessage::kHave, request};
    shard.directoryService->apply("silent", update);
    const Result<std::shared_ptr<FileFetch>> opened =
        co_await shard.fetcher->open(std::move(reference));
    rate->charge(1u << 20);
    FetchOptions options{.priority = Priority::kBackground, .rate = rate};
    shard.gate->spawn(fetch(shard, *opened, std::move(options)));
    while (!(*opened)->flights.contains(0) ||
           (*opened)->flights.at(0)->state() != ChunkFlight::State::kFromPeer)
      co_await shard.reactor->sleep(std::chrono::milliseconds(1));
    const Status awaited = co_await shard.fetcher->awaitChunk((*opened)->key(), 0);
    const bool onItsWay = (*opened)->flights.contains(0);
    co_await engine.home().enter();
    co_return std::pair(awaited, onItsWay);
  }
};

// The asker may be granted the chunk itself, where we must wait for a rate.
TEST(AwaitedChunk, SendsWaitersAwayWhenTheReadFromAHolderFails) {
  Origin origin;
  origin.add("model", kChunkBytes);
  Agent agent("agent", [](EngineOptions& options) { options.shards = 1; });
  const BesideASilentOne silent(agent);
  const auto dataset = agent.add(origin);
  HeldBack held;
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  auto waiting = std::async(std::launch::async,
                            [&] { return agent.await(held.awaitWhatFails(agent.engine(), file)); });
  EXPECT_EQ(waiting.wait_for(kHang), std::future_status::ready);
  held.rate->cancel();
  const auto [awaited, onItsWay] = waiting.get();
  EXPECT_EQ(awaited.code(), ErrorCode::kTryElsewhere);
  EXPECT_TRUE(onItsWay) << "not only when this agent has given it up";
  agent.stop();
}

}  // namespace
}  // namespace hearth::testing_cluster
