// A holder whose disk hangs answers probes, and gives nothing: others are asked.
#include "base/testing/sanitizers.h"
#include "engine/testing_cluster.h"
#include "fetch/memory_tier.h"
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

// What the agent has is on its disk alone from now on.
void forget(Agent& agent) {
  for (const auto& shard : agent.engine().commons().shards)
    EXPECT_TRUE(runOn(*shard->reactor, leaveMemory(*shard)));
}

TEST(HangingPeer, CostsLittleBesideAnIdleHolder) {
  Origin origin;
  origin.add("model", kChunks * kChunkBytes);
  const auto faults = std::make_shared<DiskFaults>("/");
  Agent idle("idle"), reader("reader"), hanging("hanging", [&](EngineOptions&options) {
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
  Clock::duration longest{}, all{};
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    const Clock::time_point began = Clock::now();
    const auto bytes = reader.await(reader.engine().contents().read(
        dataset, filesOf(*dataset->manifest)[0], chunk * kChunkBytes, 1000));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    longest = std::max(longest, Clock::now() - began);
    all += Clock::now() - began;
  }
  // Far from the 40 s that a holder is waited for, also on a busy machine.
  EXPECT_LT(longest, std::chrono::seconds(10));
  EXPECT_LT(all, std::chrono::seconds(20));
  EXPECT_EQ(reader.engine().commons().counters.fetched.originBytes.load(), 0u);
  faults->resume();
}

}  // namespace
}  // namespace hearth
