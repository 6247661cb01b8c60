// Reads into callers' memory beside other readers on this agent.
#include <future>
#include <optional>

#include "engine/testing_partition.h"
#include "fetch/fetcher.h"
#include "fetch/wanted_keys.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kFourChunks = 4 * kChunkBytes;

Shard& onlyShard(Agent& agent) { return *agent.engine().commons().shards.front(); }
void withOneShard(EngineOptions& options) { options.shards = 1; }

// Takes all slots at one peer and all copies, or gives them back.
Task<bool> takeAll(Shard& shard, Reactor& home, std::string peer) {
  co_await shard.reactor->enter();
  DirectReadSlots& slots = shard.fetcher->directReadSlots();
  co_await slots.acquire(peer, DirectReadSlots::kPeerBytes);
  co_await slots.copies.acquire(DirectReadSlots::kCopies);
  co_await home.enter();
  co_return true;
}
Task<bool> giveAllBack(Shard& shard, Reactor& home, std::string peer) {
  co_await shard.reactor->enter();
  DirectReadSlots& slots = shard.fetcher->directReadSlots();
  slots.release(peer, DirectReadSlots::kPeerBytes);
  slots.copies.release(DirectReadSlots::kCopies);
  co_await home.enter();
  co_return true;
}

// While direct reads have all their slots, another direct read waits, and readers of mounts do not.
void expectDemandReadsGoOn(Agent& reader, const std::shared_ptr<Dataset>& dataset) {
  const EntryList files = filesOf(*dataset->manifest);
  Shard& shard = onlyShard(reader);
  ASSERT_TRUE(reader.await(takeAll(shard, reader.engine().home(), "holder")));
  const auto memory = std::make_shared<std::vector<std::byte>>(kFourChunks);
  auto direct = std::async(std::launch::async, [&] {
    const MemoryVector into(MemorySlice::of(*memory, memory));
    return reader.await(reader.engine().contents().read(dataset, files->front(), 0, into));
  });
  for (std::uint64_t at = 0; at < kFourChunks; at += kBlockBytes) {
    const auto bytes =
        reader.await(reader.engine().contents().read(dataset, files->back(), at, 1000));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  }
  EXPECT_TRUE(std::ranges::all_of(*memory, [](std::byte each) { return each == std::byte{0}; }))
      << "it takes more than its places";
  ASSERT_TRUE(reader.await(giveAllBack(shard, reader.engine().home(), "holder")));
  const Status read = direct.get();
  EXPECT_TRUE(read.ok()) << read.error().message;
  EXPECT_FALSE(std::ranges::all_of(*memory, [](std::byte each) { return each == std::byte{0}; }));
}

TEST(DirectReadSlots, ReadsFromPeersLeaveRoomForOthers) {
  Origin origin;
  origin.add("model", kFourChunks);
  origin.add("other", kFourChunks);
  Agent holder("holder", withOneShard), reader("reader", withOneShard);
  connect({&holder, &reader});
  holder.beginWarm(holder.add(origin));
  ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  expectDemandReadsGoOn(reader, reader.add(origin));
}

TEST(DirectReadSlots, CopiesFromTheDiskLeaveHelpersForOthers) {
  Origin origin;
  origin.add("model", kFourChunks);
  origin.add("other", kFourChunks);
  Agent reader("reader", withOneShard);
  reader.beginWarm(reader.add(origin));
  ASSERT_EQ(reader.awaitWarm().state, WarmState::kSucceeded);
  reader.stop();
  reader.start();  // nothing of it is in memory
  expectDemandReadsGoOn(reader, reader.add(origin));
}

// Otherwise the next reads would wait for ever. The directory, which is the reader's own, still
// names the holder after it has gone.
TEST(DirectReadSlots, AreAllFreeAfterReadsThatFailed) {
  Agent holder("holder", withOneShard), reader("reader", withOneShard);
  const auto origin = originDirectedBy({&holder, &reader}, {&reader});
  connect({&holder, &reader});
  holder.beginWarm(holder.add(*origin));
  ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  const auto dataset = reader.add(*origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  const auto memory = std::make_shared<std::vector<std::byte>>(origin->bytes());
  const auto readBytes = [&](std::size_t size) {
    const MemoryVector into(MemorySlice::of(std::span(*memory).first(size), memory));
    return reader.await(reader.engine().contents().read(dataset, entry, 0, into));
  };
  ASSERT_TRUE(readBytes(1000).ok());
  holder.stop();
  EXPECT_TRUE(readBytes(memory->size()).ok()) << "from the origin";
  ASSERT_TRUE(reader.await(takeAll(onlyShard(reader), reader.engine().home(), "holder")));
}

// A read of the first file straight into memory, which waits or ends.
struct ReadBeside {
  ReadBeside(Agent& reader, const Origin& origin)
      : dataset(reader.add(origin)), entry(filesOf(*dataset->manifest).front()) {
    status = std::async(std::launch::async, [this, &reader] {
      return reader.await(reader.engine().contents().read(
          dataset, entry, 0, MemoryVector(MemorySlice::of(*memory, memory))));
    });
  }
  [[nodiscard]] ContentKey key() const { return dataset->manifest->entry(entry).key; }

  const std::shared_ptr<Dataset> dataset;
  const std::uint32_t entry;
  const std::shared_ptr<std::vector<std::byte>> memory =
      std::make_shared<std::vector<std::byte>>(kFourChunks);
  std::future<Status> status;
};

// A reader beside a holder that has all of the file.
class DirectReadSlotsOfPeers : public testing::Test {
 protected:
  void SetUp() override {
    origin.add("model", kFourChunks);
    connect({&holder, &reader});
    holder.beginWarm(holder.add(origin));
    ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  }
  [[nodiscard]] Shard& shard() { return onlyShard(reader); }

  Origin origin;
  Agent holder{"holder", withOneShard}, reader{"reader", withOneShard};
};

// Reads that wait for slow peers, however many, keep no slot of another peer.
TEST_F(DirectReadSlotsOfPeers, ASlowPeerTakesNoSlotOfAnother) {
  ASSERT_TRUE(reader.await(takeAll(shard(), reader.engine().home(), "slow")));
  ReadBeside read(reader, origin);
  EXPECT_EQ(read.status.wait_for(kHang), std::future_status::ready);
  ASSERT_TRUE(reader.await(giveAllBack(shard(), reader.engine().home(), "slow")));
  EXPECT_TRUE(read.status.get().ok());
  EXPECT_EQ(reader.await(reader.engine().statistics()).peerBytesReceived, kFourChunks);
}

// True: the agent would report to a new directory that it wants the key; nothing: it has not opened
// the key.
Task<std::optional<bool>> wants(Shard& shard, Reactor& home, ContentKey key) {
  co_await shard.reactor->enter();
  std::optional<bool> reported;
  if (shard.wanted->find(key) != nullptr) reported = shard.wanted->report(key).wants;
  co_await home.enter();
  co_return reported;
}

// The origin's bytes are divided among the agents that want a key.
TEST_F(DirectReadSlotsOfPeers, AWaitingReadReportsNoWishToKeepTheFile) {
  ASSERT_TRUE(reader.await(takeAll(shard(), reader.engine().home(), "holder")));
  ReadBeside read(reader, origin);
  std::optional<bool> wanted;
  EXPECT_TRUE(eventually([&] {
    wanted = reader.await(wants(shard(), reader.engine().home(), read.key()));
    return wanted.has_value();
  }));
  EXPECT_EQ(wanted, false);
  ASSERT_TRUE(reader.await(giveAllBack(shard(), reader.engine().home(), "holder")));
  EXPECT_TRUE(read.status.get().ok());
}

}  // namespace
}  // namespace hearth::testing_cluster
