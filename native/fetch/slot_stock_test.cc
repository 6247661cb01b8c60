#include "fetch/slot_stock.h"

#include <gtest/gtest.h>

#include "arena/arena_index.h"
#include "fetch/buffer_pool.h"

namespace hearth {
namespace {

constexpr std::size_t kSlots = 7;

// A stock of an arena in which the process before has left chunks in slots 0 and 1.
struct AdoptedStockTest : testing::Test {
  AdoptedStockTest() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const ArenaRegion& region = arena->regionOf(slot);
      slots.push_back({region.memory, (slot - region.firstSlot) * kChunkBytes, slot});
      if (slot >= 2) continue;
      (void)index->beginFill(slot);
      index->publish(slot, {.key = {}, .chunk = slot, .bytes = kChunkBytes, .crcs = {}});
    }
    std::vector<const ChunkSlot*> all;
    for (const ChunkSlot& slot : slots) all.push_back(&slot);
    stock = std::make_unique<SlotStock>(all, index.get());
    pool = std::make_unique<BufferPool>(*reactor, *stock, SlotStock::kFewest);
  }
  static Task<ChunkBuffer> takeFrom(BufferPool& pool) {
    std::vector<ChunkBuffer> one = co_await pool.acquire(Priority::kDemand, 1);
    co_return std::move(one.front());
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::unique_ptr<Arena> arena = std::move(*Arena::create({.bytes = kSlots * kChunkBytes}));
  std::unique_ptr<ArenaIndex> index = std::move(*ArenaIndex::create(*arena));
  std::vector<ChunkSlot> slots;
  std::unique_ptr<SlotStock> stock;
  std::unique_ptr<BufferPool> pool;
};

// A transfer may fill a slot until the shard has stopped: a process that ends meanwhile must leave
// an index that says so, and slots that it has not adopted as it found them.
TEST_F(AdoptedStockTest, LeavesSlotsToTheNextProcessAndNotesTransfersAllTheSame) {
  std::vector<ChunkBuffer> adopted = stock->adopt();
  ASSERT_EQ(adopted.size(), 2U);
  adopted.pop_back();
  EXPECT_EQ(stock->free(), kSlots - 1) << "what it has not adopted is free";
  const std::size_t left = adopted.front().slot();
  stock->leaveAdopted(std::move(adopted));
  EXPECT_EQ(stock->free(), kSlots - 1);
  std::vector<ChunkBuffer> filling;
  while (stock->free() != 0) {
    filling.push_back(reactor->runUntilComplete(takeFrom(*pool)));
    EXPECT_EQ(index->state(filling.back().slot()), SlotState::kFilling);
    EXPECT_NE(filling.back().slot(), left);
  }
  EXPECT_EQ(index->state(left), SlotState::kValid);
}

}  // namespace
}  // namespace hearth
