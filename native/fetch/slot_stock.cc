#include "fetch/slot_stock.h"

#include <algorithm>
#include <utility>

#include "fetch/buffer_pool.h"

namespace hearth {
namespace {

// Sum over all pools but one; null: over all.
std::size_t reservesOf(const std::vector<BufferPool*>& pools, const BufferPool* but) {
  std::size_t reserves = 0;
  for (const BufferPool* const each : pools) {
    if (each != but) reserves += each->reserve();
  }
  return reserves;
}

// Free slots that are left when the pools have taken the rest of their reserves.
std::size_t beyondReserves(std::size_t free, const std::vector<BufferPool*>& pools,
                           const BufferPool* but) {
  std::size_t kept = 0;
  for (const BufferPool* const each : pools) {
    if (each != but) kept += each->reserve() - std::min(each->reserve(), each->inUse());
  }
  return free - std::min(kept, free);
}

}  // namespace

SlotStock::SlotStock(const std::vector<const ChunkSlot*>& slots, ArenaIndex* index)
    : size_(slots.size()), index_(index) {
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    const bool left = index_ != nullptr && index_->state((*slot)->number) == SlotState::kValid;
    (left ? left_ : free_).push_back(*slot);
  }
}

void SlotStock::leaveIndex() {
  index_ = nullptr;
  leftIndex_ = true;
}

std::vector<ChunkBuffer> SlotStock::adopt() {
  std::vector<ChunkBuffer> buffers;
  for (const ChunkSlot* const slot : std::exchange(left_, {}))
    buffers.push_back(ChunkBuffer(this, nullptr, slot, nullptr));
  return buffers;
}

void SlotStock::leaveAdopted(std::vector<ChunkBuffer> adopted) {
  for (ChunkBuffer& each : adopted) {
    each.stock_ = nullptr;
    left_.push_back(each.slot_);
  }
}

void SlotStock::join(BufferPool& pool) { pools_.push_back(&pool); }

void SlotStock::leave(BufferPool& pool) { std::erase(pools_, &pool); }

std::size_t SlotStock::availableTo(const BufferPool& pool) const {
  return beyondReserves(free_.size(), pools_, &pool);
}

std::size_t SlotStock::limitOf(const BufferPool& pool) const {
  return size_ - std::min(size_, reservesOf(pools_, &pool));
}

std::size_t SlotStock::floor() const { return std::min(reservesOf(pools_, nullptr), size_); }

std::size_t SlotStock::spare() const { return beyondReserves(free_.size(), pools_, nullptr); }

std::vector<const ChunkSlot*> SlotStock::lend(std::size_t most) {
  if (!mayLend()) return {};
  const std::size_t count = std::min({most, size_ - floor(), spare() - std::min(few(), spare())});
  // The slots used last: their memory has been touched.
  std::vector<const ChunkSlot*> slots(free_.end() - static_cast<std::ptrdiff_t>(count),
                                      free_.end());
  free_.resize(free_.size() - count);
  size_ -= count;
  return slots;
}

void SlotStock::receive(const std::vector<const ChunkSlot*>& slots) {
  free_.insert(free_.end(), slots.begin(), slots.end());
  size_ += slots.size();
  serve();
}

const ChunkSlot* SlotStock::take() {
  const ChunkSlot* const slot = free_.back();
  free_.pop_back();
  if (index_ != nullptr) (void)index_->beginFill(slot->number);
  if (spare() < few()) (void)more_();
  return slot;
}

void SlotStock::put(const ChunkSlot* slot) {
  if (index_ != nullptr) index_->free(slot->number);
  free_.push_back(slot);
}

bool SlotStock::reclaim(BufferPool& asker, Priority priority) {
  // Slots that other shards can spare are better than dropping something here, and come soon, or do
  // not. Readers do not wait for the answer, as other shards may be busy.
  if (more_() && priority == Priority::kBackground) return false;
  if (reclaim_() || asker.reclaim_(priority)) return true;
  // A slot within another pool's reserve would go back to that pool.
  return std::any_of(pools_.begin(), pools_.end(), [&](BufferPool* pool) {
    return pool != &asker && pool->inUse() > pool->reserve() && pool->reclaim_(priority);
  });
}

bool SlotStock::reclaimIdle() { return !more_() && reclaimIdle_(); }

void SlotStock::serve() {
  if (reclaiming_) return;
  for (bool served = true; served;) {
    served = false;
    for (BufferPool* const pool : pools_) served = pool->serveFirst() || served;
  }
}

}  // namespace hearth
