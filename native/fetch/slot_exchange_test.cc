#include "fetch/slot_exchange.h"

#include <gtest/gtest.h>

#include "base/testing/moved_clock.h"
#include "fetch/buffer_pool.h"
#include "fetch/testing_slots.h"
#include "fetch/testing_stuck_answer.h"

namespace hearth {
namespace {

using testing_support::lendToStuckPeer;
using testing_support::StuckAnswer;

constexpr std::size_t kSlotsPerShard = 64;  // of each shard
constexpr std::size_t kReserve = 4;

ContentKey exchangeKey(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return key;
}

// All shards run on the thread of the test, one after the other.
struct ExchangeShard {
  explicit ExchangeShard(const std::vector<const ChunkSlot*>& slots) : stock(slots) {}
  ~ExchangeShard() {
    tier.clear();
    turn();
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  SlotStock stock;
  BufferPool peers{*reactor, stock, kReserve};
  BufferPool origins{*reactor, stock, kReserve};
  MemoryTier tier{*reactor, stock};

  // Runs all that was posted to the shard's reactor.
  void turn() {
    reactor->runUntilComplete([](Reactor& own) -> Task<bool> {
      co_await own.sleep(std::chrono::microseconds(50));
      co_return true;
    }(*reactor));
  }

  static Task<void> keep(ExchangeShard& shard, std::shared_ptr<FileFetch> file, std::uint32_t chunk,
                         Priority priority = Priority::kBackground) {
    std::vector<ChunkBuffer> buffer = co_await shard.origins.acquire(priority, 1);
    shard.tier.keep(file->shared, chunk,
                    loadInto(*shard.reactor, std::move(buffer.front()), kChunkBytes));
  }
};

class SlotExchangeTest : public testing::Test {
 protected:
  testing_support::OwnedSlots slots{2 * kSlotsPerShard};
  SlotExchange exchange;
  ExchangeShard first{slots.part(0, kSlotsPerShard)};
  ExchangeShard second{slots.part(kSlotsPerShard, kSlotsPerShard)};

  void SetUp() override {
    for (ExchangeShard* const shard : {&first, &second})
      exchange.join(*shard->reactor, shard->stock, shard->tier);
    exchange.open();
  }

  static std::shared_ptr<FileFetch> file(std::uint8_t number, std::uint64_t chunks) {
    auto fetch = std::make_shared<FileFetch>(
        FileReference{}, std::make_shared<KeyFetch>(exchangeKey(number), chunks * kChunkBytes,
                                                    nullptr, std::make_shared<LoadedChunks>()));
    fetch->shared->files.push_back(fetch);
    return fetch;
  }

  // As a warm job does, until all of it has come in; the shards take turns.
  void fill(ExchangeShard& shard, const std::shared_ptr<FileFetch>& wanted, std::uint32_t chunks) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
      Gate gate(*shard.reactor);
      gate.spawn(ExchangeShard::keep(shard, wanted, chunk));
      takeTurns();
      shard.reactor->runUntilComplete([](Gate& own) -> Task<bool> {
        co_await own.close();
        co_return true;
      }(gate));
    }
  }

  void takeTurns() {
    for (int turn = 0; turn < 2; ++turn) {
      first.turn();
      second.turn();
    }
  }
};

TEST_F(SlotExchangeTest, AFileTakesSlotsThatOtherShardsDoNotNeed) {
  constexpr std::uint32_t kChunks = 60;  // of 64 that the first shard begins with
  const auto model = file(1, kChunks);
  fill(first, model, kChunks);
  EXPECT_EQ(first.tier.chunks(), kChunks);
  EXPECT_EQ(first.tier.evictedFiles(), 0u);
  EXPECT_GT(first.stock.size(), kSlotsPerShard);
  EXPECT_EQ(first.stock.size() + second.stock.size(), 2 * kSlotsPerShard);
  EXPECT_EQ(exchange.moved(), first.stock.size() - kSlotsPerShard);
}

TEST_F(SlotExchangeTest, TheReservesOfAShardStayWithIt) {
  for (std::uint8_t number = 1; number <= 40; ++number) fill(first, file(number, 4), 4);
  EXPECT_GE(second.stock.size(), 2 * kReserve);
  EXPECT_GE(second.stock.free(), 2 * kReserve);
}

TEST_F(SlotExchangeTest, EvictsTheFileUnusedForLongestOnAnyShard) {
  constexpr std::uint32_t kOld = 55;
  fill(second, file(1, kOld), kOld);
  moveClock(std::chrono::seconds(10));
  constexpr std::uint32_t kNew = 60;
  const auto model = file(2, kNew);
  fill(first, model, kNew);
  EXPECT_EQ(first.tier.chunks(), kNew);
  EXPECT_EQ(second.tier.chunks(), 0u);
}

// Both shards hold as much as they can, and none of it is old.
TEST_F(SlotExchangeTest, KeepsAFileUsedOnlyALittleEarlier) {
  constexpr std::uint32_t kMost = 2 * kSlotsPerShard - 2 * kReserve;
  constexpr std::chrono::seconds kLittle{1};
  const Clock::time_point began = Clock::now();
  fill(second, file(1, 40), 40);
  for (std::uint8_t number = 2; number < 12; ++number) fill(first, file(number, 10), 10);
  if (Clock::now() - began < kLittle) {
    EXPECT_EQ(second.tier.chunks(), 40u);
    EXPECT_GT(first.tier.evictedFiles(), 0u);
  }
  EXPECT_LE(first.stock.size(), kMost);
}

TEST_F(SlotExchangeTest, AScanEvictsNoFileThatWasUsedAgain) {
  const auto hot = file(1, 40);
  fill(second, hot, 40);
  (void)second.tier.open(hot->shared->key);
  moveClock(std::chrono::hours(1));
  for (std::uint8_t number = 2; number < 42; ++number) {
    fill(first, file(number, 4), 4);
    moveClock(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(second.tier.chunks(), 40u);
  EXPECT_GT(first.tier.evictedFiles(), 0u);
}

TEST_F(SlotExchangeTest, APassingFileTakesNoFilesOfOthers) {
  fill(second, file(1, 40), 40);
  moveClock(std::chrono::hours(1));
  constexpr std::uint32_t kLarger = 200;  // than all of the memory
  fill(first, file(2, kLarger), kLarger);
  EXPECT_EQ(second.tier.chunks(), 40u);
}

// The reader has yet to come to all that is fetched ahead of it.
TEST_F(SlotExchangeTest, APassingFileAheadOfItsReaderTakesNoFilesOfOthers) {
  const auto hot = file(1, 40);
  fill(second, hot, 40);
  (void)second.tier.open(hot->shared->key);
  moveClock(std::chrono::hours(1));
  const auto larger = file(2, 200);
  larger->readers = 1;
  fill(first, larger, 80);
  EXPECT_EQ(second.tier.chunks(), 40u);
}

// The slots of lent files would not come back, and files would go for nothing.
TEST_F(SlotExchangeTest, KeepsLentFilesOfOtherShards) {
  std::vector<std::shared_ptr<StuckAnswer>> answers;
  for (std::uint8_t number = 1; number <= 10; ++number) {
    const auto sent = file(number, 4);
    fill(second, sent, 4);
    for (const auto& [chunk, loaded] : sent->loaded.all())
      answers.push_back(lendToStuckPeer(loaded));
  }
  moveClock(std::chrono::hours(1));
  fill(first, file(20, 60), 60);
  EXPECT_EQ(second.tier.chunks(), 40u);
  EXPECT_EQ(second.tier.evictedFiles(), 0u);
}

// Each shard asks for slots that the other has and does not use.
TEST_F(SlotExchangeTest, MemoryFollowsTheWork) {
  for (std::uint8_t round = 0; round < 4; ++round) {
    ExchangeShard& busy = round % 2 == 0 ? first : second;
    for (std::uint8_t part = 0; part < 2; ++part)
      fill(busy, file(static_cast<std::uint8_t>(2 * round + part), 45), 45);
    EXPECT_EQ(busy.tier.chunks(), 90u) << int{round};
    EXPECT_EQ(first.stock.size() + second.stock.size(), 2 * kSlotsPerShard);
    moveClock(std::chrono::seconds(10));
  }
}

TEST_F(SlotExchangeTest, NothingMovesAfterItIsClosed) {
  exchange.close();
  fill(first, file(1, 60), 60);
  EXPECT_EQ(first.stock.size(), kSlotsPerShard);
  EXPECT_EQ(exchange.moved(), 0u);
}

// The next process finds its index as this one left it.
TEST_F(SlotExchangeTest, AStockThatLeftTheIndexLendsNothing) {
  second.stock.leaveIndex();
  fill(first, file(1, 60), 60);
  EXPECT_EQ(second.stock.size(), kSlotsPerShard);
}

// The answer serves the waiters, also when it brings no slots.
TEST_F(SlotExchangeTest, ARefusedAskerEvictsItsOwn) {
  second.stock.leaveIndex();
  for (std::uint8_t number = 1; number <= 5; ++number) fill(first, file(number, 20), 20);
  EXPECT_GT(first.tier.evictedFiles(), 0u);
  EXPECT_GE(first.tier.chunks(), 40u);
}

// The other shard does not answer, as if it was busy.
TEST_F(SlotExchangeTest, AReaderDoesNotWaitForTheAnswer) {
  fill(second, file(5, 55), 55);
  for (std::uint8_t number = 1; number <= 3; ++number) fill(first, file(number, 19), 19);
  const auto wanted = file(4, 19);
  Gate gate(*first.reactor);
  for (std::uint32_t chunk = 0; chunk < 19; ++chunk)
    gate.spawn(ExchangeShard::keep(first, wanted, chunk, Priority::kDemand));
  first.turn();
  EXPECT_NE(first.tier.find(wanted->shared->key, 18), nullptr);
  EXPECT_GT(first.tier.evictedFiles(), 0u);
}

}  // namespace
}  // namespace hearth
