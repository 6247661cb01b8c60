// An agent's services for its peers, called directly.
#include "engine/peer_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "base/crc32c.h"
#include "directory/directory_message.h"
#include "engine/testing_cluster.h"
#include "fetch/memory_tier.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;

// The number of mappings of a file of that name in this process.
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
    Result<BytesAnswer> answer = co_await service.onReadManifest("b", digest, 0, kChunkBytes);
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

TEST(PeerService, MapsAManifestOnceForAllItsReaders) {
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

// Numbers shards as agents with another number of shards do.
std::vector<std::byte> updatesOfBothShards(EngineCommons& commons) {
  std::vector<DirectoryUpdate> updates(kMaxUpdates);
  for (std::uint32_t i = 0, number = 0; i < kMaxUpdates; ++i) {
    ContentKey& key = updates[i].request.key;
    do {
      ++number;
      std::memcpy(key.bytes.data(), &number, sizeof number);
    } while (&commons.owner(key) != commons.shards[i % 2].get());
    updates[i].request.chunks = 1;
  }
  return encode(updates);
}

Task<bool> sendUpdates(Shard& shard, std::vector<std::byte> body) {
  ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kUpdates), std::move(body)};
  const Result<ControlMessage> answer =
      co_await shard.peerService->onControl("b", std::move(message));
  co_return answer.ok();
}

// Otherwise a thousand updates would take a thousand turns of busy shards, longer than their sender
// waits.
TEST(PeerService, UpdatesForSeveralShardsTakeFewTurns) {
  Agent agent("a");
  EngineCommons& commons = agent.engine().commons();
  ASSERT_EQ(commons.shards.size(), 2u);
  std::vector<std::byte> updates = updatesOfBothShards(commons);
  std::atomic<int> turns{0};
  std::atomic<bool> ended{false};
  std::promise<void> idle;
  Reactor& other = *commons.shards[1]->reactor;
  std::function<void()> turn = [&] {
    if (ended) return idle.set_value();
    ++turns;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    other.post(turn);
  };
  other.post(turn);
  EXPECT_TRUE(agent.await(sendUpdates(*commons.shards.front(), std::move(updates))));
  // One by one the updates would take as many turns as there are updates.
  EXPECT_LT(turns, int{kMaxUpdates / 4});
  ended = true;
  idle.get_future().wait();
}

// A complete file, and reads of it as a peer's, on the shard that owns it.
class SmallPeerReads : public testing::Test {
 protected:
  void SetUp() override {
    origin.add("model", kChunkBytes + 100'000);
    dataset = agent.add(origin);
    agent.beginWarm(dataset);
    ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
    expected = origin.bytesOf("model");
    ASSERT_TRUE(runOn(owner(), leaveMemory()));
  }
  // From now on the file is on the disk alone.
  Task<bool> leaveMemory() {
    Shard& shard = agent.engine().commons().owner(key);
    co_await shard.reactor->enter();
    shard.memory->clear();
    co_return shard.memory->bytes() == 0;
  }
  ~SmallPeerReads() override {
    blocked = false;
    eventually([this] { return blocking == 0; });
  }

  Task<Result<BytesAnswer>> ask(std::uint64_t offset, std::uint32_t length) {
    Shard& shard = agent.engine().commons().owner(key);
    co_await shard.reactor->enter();
    Task<Result<BytesAnswer>> reading =
        shard.peerService->onRead("b", key, offset, length, Interest());
    co_return co_await reading;
  }
  void expectRead(std::uint64_t offset, std::uint32_t length) {
    const Result<BytesAnswer> answer = runOn(owner(), ask(offset, length));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_TRUE(std::ranges::equal(answer->bytes,
                                   std::as_bytes(std::span(expected)).subspan(offset, length)));
    EXPECT_EQ(answer->blockChecksums, crc32cOfBlocks(answer->bytes, kBlockBytes));
  }
  [[nodiscard]] Reactor& owner() { return *agent.engine().commons().owner(key).reactor; }
  // The helper threads of the shard have enough to do from now on.
  void occupyHelpers() {
    struct Wait {
      static Task<void> run(SmallPeerReads& test) {
        auto wait = [&test] {
          while (test.blocked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return 0;
        };
        co_await test.owner().offload(wait);
        --test.blocking;
      }
    };
    constexpr int kHelpers = 4;
    blocked = true;
    blocking = kHelpers;
    for (int i = 0; i < kHelpers; ++i) owner().post([this] { spawn(Wait::run(*this)); });
  }
  [[nodiscard]] EvictOutcome evictFromCache() {
    return *agent.await(agent.engine().commons().cache->evict(key));
  }

  Origin origin;
  Agent agent{"a", ScrubOptions{.bytesPerSecond = 0}};
  std::shared_ptr<Dataset> dataset;
  ContentKey key;
  std::string expected;
  std::atomic<bool> blocked{false};
  std::atomic<int> blocking{0};
};

TEST_F(SmallPeerReads, AreAnsweredFromThePageCacheWithoutAHelperThread) {
  // Opens the file, and brings it into the page cache.
  for (std::uint64_t at = 0; at < expected.size(); at += kBlockBytes)
    expectRead(
        at, static_cast<std::uint32_t>(std::min<std::uint64_t>(kBlockBytes, expected.size() - at)));
  occupyHelpers();
  expectRead(0, 4096);
  expectRead(5 * kBlockBytes, 2 * kBlockBytes);
  expectRead(kChunkBytes, 100'000);
  expectRead(kChunkBytes + kBlockBytes, 1000);
}

TEST_F(SmallPeerReads, GiveNoBlockThatWentBad) {
  expectRead(0, 100);
  const std::string path = agent.engine().commons().cache->find(key)->path();
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(70'000).put('!');
  EXPECT_EQ(runOn(owner(), ask(kBlockBytes, 100)).code(), ErrorCode::kTryElsewhere);
  EXPECT_EQ(runOn(owner(), ask(0, 100)).code(), ErrorCode::kTryElsewhere) << "nor its chunk";
}

TEST_F(SmallPeerReads, KeepAFileFromEvictionForAMomentOnly) {
  expectRead(0, 100);
  EXPECT_NE(agent.engine().commons().cache->residentBytes(key), 0u);
  eventually([this] { return evictFromCache() == EvictOutcome::kEvicted; });
  EXPECT_EQ(runOn(owner(), ask(0, 100)).code(), ErrorCode::kTryElsewhere);
}

TEST_F(SmallPeerReads, DoNotDelayEviction) {
  expectRead(0, 100);
  const Evicted evicted = agent.await(agent.engine().contents().evict(dataset, std::nullopt));
  EXPECT_EQ(evicted.kept(), 0u);
  EXPECT_EQ(agent.engine().commons().cache->residentBytes(key), 0u);
}

// Asks as `node` would; nothing: the agent refuses.
Task<std::optional<LocateAnswer>> send(Shard& shard, std::string node, DirectoryMessage type,
                                       DirectoryRequest request) {
  ControlMessage message{static_cast<std::uint16_t>(type), encode(request)};
  Task<Result<ControlMessage>> asking =
      shard.peerService->onControl(std::move(node), std::move(message));
  const Result<ControlMessage> answer = co_await asking;
  if (!answer.ok()) co_return std::nullopt;
  co_return type == DirectoryMessage::kLocate ? decodeLocateAnswer(answer->body) : LocateAnswer{};
}

// A directory that believed the first size would grant nothing beyond it to any agent.
TEST(PeerService, AWrongSizeFromOneAgentStopsNoOther) {
  Origin origin;
  origin.add("model", 10'000'000);
  Agent agent("a");
  const auto dataset = agent.add(origin);
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  Shard& shard = *agent.engine().commons().shards.front();
  EXPECT_TRUE(agent.await(send(shard, "b", DirectoryMessage::kLocate,
                               {.key = file.about.key, .size = 1, .chunks = 1})));
  agent.beginWarm(dataset);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

// Nor would it name holders of the bytes beyond, in spite of reports and updates: the origin would
// be read again.
TEST(PeerService, AWrongSizeFromOneAgentHidesNoHolder) {
  const std::uint64_t size = kStripeBytes + kChunkBytes;
  Origin origin;
  origin.add("model", size);
  Agent agent("a");
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  agent.stop();
  agent.start();  // with a new directory
  Shard& shard = *agent.engine().commons().shards.front();
  EXPECT_TRUE(agent.await(
      send(shard, "b", DirectoryMessage::kLocate, {.key = key, .size = 1, .chunks = 1})));
  EXPECT_TRUE(agent.await(send(shard, "b", DirectoryMessage::kHave,
                               {.key = key, .size = size, .stripe = 7, .chunks = 2})));
  const auto holderOf = [&](std::uint32_t stripe, ChunkMask chunk) {
    const auto answer =
        agent.await(send(shard, "c", DirectoryMessage::kLocate,
                         {.key = key, .size = 8 * size, .stripe = stripe, .chunks = chunk}));
    return answer && answer->holders.size() == 1 ? answer->holders.front().node : "none";
  };
  EXPECT_EQ(holderOf(1, 1), "a") << "which reported it";
  EXPECT_EQ(holderOf(7, 2), "b") << "which reported it later";
}

}  // namespace
}  // namespace hearth
