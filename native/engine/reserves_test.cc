// Fetches from the origin and reads from peers have separate reserves, so agents that read from one
// another always make progress: with little memory each would otherwise wait for memory of the
// other.
#include <gtest/gtest.h>

#include <future>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

void withEightChunks(EngineOptions& options) {
  options.shards = 1;
  options.bufferBytes = 8 * std::uint64_t{kChunkBytes};
}

TEST(Reserves, TwoAgentsWithMemoryForEightChunksFillThemselvesFromEachOther) {
  Origin origin;
  for (int i = 0; i < 6; ++i) origin.add("file" + std::to_string(i), 10 * kChunkBytes + 12345);
  Agent a("a", withEightChunks), b("b", withEightChunks);
  connect({&a, &b});
  for (Agent* const agent : {&a, &b}) agent->beginWarm(agent->add(origin));
  std::uint64_t fromOrigin = 0;
  for (Agent* const agent : {&a, &b}) {
    const WarmProgress progress = agent->awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded) << agent->name();
    EXPECT_EQ(progress.bytesReady, origin.bytes());
    EXPECT_GT(progress.peerBytes, 0u) << agent->name() << " got nothing from the other one";
    fromOrigin += progress.originBytes;
  }
  EXPECT_GE(fromOrigin, origin.bytes());
}

// Each agent holds files that the other wants, and both serve while they fetch: with one reserve
// for both, each would hold all of its memory for bytes that the other has no memory to read from
// its disk.
TEST(Reserves, TwoAgentsWithMemoryForEightChunksReadWhatTheOtherHolds) {
  Origin ofA, ofB;
  for (int i = 0; i < 6; ++i) ofA.add("a" + std::to_string(i), 10 * kChunkBytes);
  for (int i = 0; i < 6; ++i) ofB.add("b" + std::to_string(i), 10 * kChunkBytes);
  Agent a("a", withEightChunks), b("b", withEightChunks);
  connect({&a, &b});
  a.beginWarm(a.add(ofA));
  b.beginWarm(b.add(ofB));
  for (Agent* const agent : {&a, &b}) {
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
    ASSERT_TRUE(agent->engine().cancelWarm("warm").ok());  // forgets it
  }
  a.beginWarm(a.add(ofB));
  b.beginWarm(b.add(ofA));
  for (Agent* const agent : {&a, &b}) {
    const WarmProgress progress = agent->awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded) << agent->name();
    EXPECT_EQ(progress.originBytes + progress.peerBytes, ofA.bytes());
    if (undisturbed({&a, &b})) {
      EXPECT_EQ(progress.originBytes, 0u) << agent->name() << " read what the other one has";
    }
  }
}

// Reads all files of the dataset into memory, several at a time.
Status readAll(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  std::vector<std::future<Status>> reads;
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    reads.push_back(std::async(std::launch::async, [&agent, dataset, entry] {
      const auto memory =
          std::make_shared<std::vector<std::byte>>(dataset->manifest->entry(entry).size);
      const MemoryVector into(MemorySlice::of(*memory, memory));
      return agent.await(agent.engine().contents().read(dataset, entry, 0, into));
    }));
  }
  Status all;
  for (std::future<Status>& each : reads) {
    if (const Status read = each.get(); !read.ok()) all = read;
  }
  return all;
}

// The same for reads into callers' memory: of files that neither holds, which each fetches for
// both, and of files that the other agent holds.
TEST(Reserves, TwoAgentsWithMemoryForEightChunksReadIntoMemoryFromEachOther) {
  Origin shared, ofA, ofB;
  for (int i = 0; i < 2; ++i) {
    shared.add("shared" + std::to_string(i), 10 * kChunkBytes + 12345);
    ofA.add("a" + std::to_string(i), 10 * kChunkBytes);
    ofB.add("b" + std::to_string(i), 10 * kChunkBytes);
  }
  Agent a("a", withEightChunks), b("b", withEightChunks);
  connect({&a, &b});
  a.beginWarm(a.add(ofA));
  b.beginWarm(b.add(ofB));
  for (Agent* const agent : {&a, &b}) ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  struct Reading {
    Agent& agent;
    std::shared_ptr<Dataset> both, others;
  };
  const std::vector<Reading> readings{{a, a.add(shared), a.add(ofB)},
                                      {b, b.add(shared), b.add(ofA)}};
  std::vector<std::future<Status>> reads;
  for (const Reading& each : readings) {
    for (const auto& dataset : {each.both, each.others}) {
      reads.push_back(std::async(std::launch::async,
                                 [&each, dataset] { return readAll(each.agent, dataset); }));
    }
  }
  for (std::future<Status>& each : reads) {
    ASSERT_EQ(each.wait_for(std::chrono::seconds(300)), std::future_status::ready)
        << "they wait for each other";
    const Status read = each.get();
    EXPECT_TRUE(read.ok()) << read.error().message;
  }
  for (Agent* const agent : {&a, &b})
    EXPECT_GE(agent->await(agent->engine().statistics()).peerBytesReceived, ofA.bytes())
        << agent->name() << " read what the other one has";
}

}  // namespace
}  // namespace hearth::testing_cluster
