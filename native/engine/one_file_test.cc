// All shards move one file, whichever shard owns it.
#include <algorithm>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kOneFile = 16 * kRunChunks * kChunkBytes;

// Bytes that each shard has counted.
template <class Count>
std::vector<std::uint64_t> ofShards(Agent& agent, Count count) {
  std::vector<std::uint64_t> counts;
  for (const std::unique_ptr<Shard>& shard : agent.engine().commons().shards) {
    auto ask = [](Shard& there, Count what) -> Task<std::uint64_t> {
      co_await there.reactor->enter();
      co_return what(there);
    };
    counts.push_back(runOn(*shard->reactor, ask(*shard, count)));
  }
  return counts;
}

std::uint64_t fromOrigin(const Shard& shard) { return shard.origin->statistics().bytes; }
std::uint64_t fromPeers(const Shard& shard) {
  std::uint64_t sum = 0;
  for (const PeerStatistics& peer : shard.transport->statistics()) sum += peer.bytesReceived;
  return sum;
}

TEST(OneFile, AllShardsBringItFromTheOriginAndFromPeers) {
  Origin origin;
  origin.add("model", kOneFile);
  Agent one("one"), two("two");
  connect({&one, &two});
  for (Agent* const agent : {&one, &two}) {
    agent->beginWarm(agent->add(origin));
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
  const auto half = kOneFile / 2;
  EXPECT_EQ(ofShards(one, fromOrigin), (std::vector<std::uint64_t>{half, half}));
  if (undisturbed({&one, &two})) {
    EXPECT_EQ(ofShards(two, fromOrigin), (std::vector<std::uint64_t>{0, 0}));
    // The owner's shard alone moves bytes until the other one has a connection.
    EXPECT_GE(std::ranges::min(ofShards(two, fromPeers)), half / 2);
  }
}

}  // namespace
}  // namespace hearth::testing_cluster
