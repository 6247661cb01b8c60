// What an agent does for its peers, asked directly.
#include "engine/peer_service.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/testing_cluster.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;

// How often this process has a file of that name in its memory.
int mappingsOf(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos;
  return count;
}

struct Asking {
  std::vector<BytesAnswer> answers;
  Event all;

  static Task<void> one(PeerService& service, Sha256Digest digest, std::size_t count,
                        Asking& asking) {
    Task<Result<BytesAnswer>> reading = service.onReadManifest("b", digest, 0, kChunkBytes);
    Result<BytesAnswer> answer = co_await reading;
    EXPECT_TRUE(answer.ok());
    asking.answers.push_back(answer.ok() ? std::move(*answer) : BytesAnswer());
    if (asking.answers.size() == count) asking.all.set();
  }
  static Task<std::vector<BytesAnswer>> run(Shard& shard, Sha256Digest digest, std::size_t count) {
    Asking asking{{}, Event(*shard.reactor)};
    for (std::size_t i = 0; i < count; ++i)
      shard.gate->spawn(one(*shard.peerService, digest, count, asking));
    co_await asking.all.wait();
    co_return std::move(asking.answers);
  }
};

TEST(PeerService, AManifestIsMappedOnceForAllWhoReadItAtATime) {
  Origin origin;
  origin.add("model", 65537);
  Agent agent("a");
  const Sha256Digest digest = agent.add(origin)->manifest->digest();
  const std::string name = ContentKey{digest}.hex();
  const int before = mappingsOf(name);
  Shard& shard = *agent.engine().commons().shards.front();
  std::vector<BytesAnswer> answers = agent.await(Asking::run(shard, digest, 64));
  ASSERT_EQ(answers.size(), 64u);
  EXPECT_EQ(mappingsOf(name), before + 1);
  for (const BytesAnswer& answer : answers) EXPECT_EQ(Sha256::of(answer.bytes), digest);
  answers.resize(1);
  EXPECT_EQ(mappingsOf(name), before + 1) << "the last one is still being sent";
  answers.clear();
  EXPECT_EQ(mappingsOf(name), before);
  answers = agent.await(Asking::run(shard, digest, 1));
  EXPECT_EQ(Sha256::of(answers.front().bytes), digest) << "and again";
}

}  // namespace
}  // namespace hearth
