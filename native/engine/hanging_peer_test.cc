// A holder whose disk hangs answers probes, and gives nothing: readers ask others.
#include "base/testing/sanitizers.h"
#include "engine/testing_cluster.h"
#include "fetch/memory_tier.h"
#include "fetch/peer_standings.h"
#include "files/testing/faulty_file_system.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::connect;
using testing_cluster::Origin;
using testing_support::DiskCall;
using testing_support::DiskFaults;
using testing_support::FaultyFileSystem;

constexpr std::uint64_t kChunks = 24;

Task<bool> leaveMemory(Shard& shard) {
  co_await shard.reactor->enter();
  shard.memory->clear();
  co_return shard.memory->bytes() == 0;
}

// The agent keeps its bytes on its disk alone from now on.
void forget(Agent& agent) {
  for (const auto& shard : agent.engine().commons().shards)
    EXPECT_TRUE(runOn(*shard->reactor, leaveMemory(*shard)));
}

TEST(HangingPeer, CostsLittleBesideAnIdleHolder) {
  Origin origin;
  origin.add("model", kChunks * kChunkBytes);
  const auto faults = std::make_shared<DiskFaults>("/");
  Agent idle("idle"), reader("reader"), hanging("hanging", [&](EngineOptions&options) {
    // Like a release that does not notice it.
    options.cacheDirectories.front().stall = Clock::duration::max();
    options.files = [faults](Reactor& reactor) {
      return std::make_unique<FaultyFileSystem>(reactor, faults);
    };
  });
  connect({&idle, &reader, &hanging});
  for (Agent* const agent : {&hanging, &idle}) {
    agent->beginWarm(agent->add(origin));
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
    forget(*agent);
  }
  faults->hang({DiskCall::kRead, DiskCall::kOpenToRead});
  const auto dataset = reader.add(origin);
  const Clock::time_point began = Clock::now();
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto bytes = reader.await(reader.engine().contents().read(
        dataset, filesOf(*dataset->manifest)[0], chunk * kChunkBytes, 1000));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  }
  // Each wait is PeerStandings::patience(), which is 0.4 s as long as others give chunks sooner.
  const auto tries = (Clock::now() - began) / PeerStandings::kLeftOut + 1;
  EXPECT_LE(faults->waits(), PeerStandings::kLate + tries);
  EXPECT_EQ(reader.engine().commons().counters.fetched.originBytes.load(), 0u);
  faults->resume();
}

}  // namespace
}  // namespace hearth
