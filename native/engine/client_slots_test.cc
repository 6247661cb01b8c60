// The slots of answers to clients: two of a shard that no other work takes, and no more while all
// others are in use.
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "engine/peer_service.h"
#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint32_t kChunks = 12;

class ClientSlotsTest : public testing::Test {
 public:
  void SetUp() override { origin.add("model", kChunks * kChunkBytes); }
  [[nodiscard]] Shard& shard() { return *agent.engine().commons().shards.front(); }
  template <class T>
  T onShard(Task<T> (*body)(ClientSlotsTest&)) {
    struct Wrap {
      static Task<T> run(ClientSlotsTest& test, Task<T> (*body)(ClientSlotsTest&)) {
        co_await test.shard().reactor->enter();
        T result = co_await body(test);
        co_await test.agent.engine().home().enter();
        co_return result;
      }
    };
    return agent.await(Wrap::run(*this, body));
  }

  Origin origin;
  ContentKey key;  // of the file
  Agent agent{"a", [](EngineOptions& options) {
                options.shards = 1;
                options.bufferBytes = 1;  // the fewest slots
              }};
};

// Takes all that origin and peers can have.
Task<std::vector<ChunkBuffer>> takeOthers(Shard& shard) {
  std::vector<ChunkBuffer> all;
  for (BufferPool* const pool : {shard.originBuffers.get(), shard.peerBuffers.get()}) {
    while (pool->inUse() < pool->capacity()) {
      std::vector<ChunkBuffer> one = co_await pool->acquire(Priority::kDemand, 1);
      all.push_back(std::move(one.front()));
    }
  }
  co_return all;
}

Task<void> takeOne(BufferPool& pool, std::vector<ChunkBuffer>& into) {
  std::vector<ChunkBuffer> one = co_await pool.acquire(Priority::kDemand, 1);
  into.push_back(std::move(one.front()));
}

TEST_F(ClientSlotsTest, NoOtherWorkTakesThem) {
  EXPECT_EQ(shard().slots->size(), 10U);
  EXPECT_TRUE(onShard<bool>([](ClientSlotsTest& test) -> Task<bool> {
    Shard& shard = test.shard();
    const std::vector<ChunkBuffer> others = co_await takeOthers(shard);
    EXPECT_EQ(others.size(), 8U);
    EXPECT_EQ(shard.clientBuffers->capacity(), 2U);
    std::vector<ChunkBuffer> clients;
    Gate takers(*shard.reactor);
    for (int taker = 0; taker < 3; ++taker) takers.spawn(takeOne(*shard.clientBuffers, clients));
    EXPECT_EQ(clients.size(), 2U) << "the third waits";
    clients.erase(clients.begin());
    co_await takers.close();
    EXPECT_EQ(clients.size(), 2U);
    co_return true;
  }));
}

// Reads one chunk as a client, and drops the answer.
Task<void> readChunk(Shard& shard, std::shared_ptr<const Capability> client, ContentKey key,
                     std::uint32_t chunk, std::vector<std::uint32_t>& checksums) {
  const Result<BytesAnswer> answer = co_await shard.peerService->onClientRead(
      std::move(client), key, chunk * std::uint64_t{kChunkBytes}, kChunkBytes, Interest());
  EXPECT_TRUE(answer.ok()) << answer.error().message;
  if (answer.ok()) checksums = answer->blockChecksums;
  EXPECT_LE(shard.clientBuffers->inUse(), shard.clientBuffers->capacity());
}

// All of these reads at a time would need more memory than there is.
TEST_F(ClientSlotsTest, ReadsOfBytesThatAreNotHereTakeTurnsInThem) {
  const auto dataset = agent.add(origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  key = dataset->manifest->entry(entry).key;
  agent.engine().commons().clientDatasets.open({"llm", dataset, entry});
  EXPECT_TRUE(onShard<bool>([](ClientSlotsTest& test) -> Task<bool> {
    Shard& shard = test.shard();
    const auto client = std::make_shared<Capability>();
    client->rights = static_cast<std::uint32_t>(CapabilityRight::kRead);
    client->datasets = {"llm"};
    std::vector<std::vector<std::uint32_t>> read(kChunks);
    Gate reads(*shard.reactor);
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk)
      reads.spawn(readChunk(shard, client, test.key, chunk, read[chunk]));
    co_await reads.close();
    const std::string bytes = test.origin.bytesOf("model");
    const auto expected = crc32cOfBlocks(std::as_bytes(std::span(bytes)), kBlockBytes);
    std::vector<std::uint32_t> all;
    for (const auto& each : read) all.insert(all.end(), each.begin(), each.end());
    EXPECT_EQ(all, expected);
    co_return true;
  }));
}

}  // namespace
}  // namespace hearth::testing_cluster
