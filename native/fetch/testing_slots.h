// Slots of memory of their own. For tests.
#pragma once

#include "base/generated/constants.h"
#include "fetch/slot_stock.h"

namespace hearth::testing_support {

// The slots live as long as this object.
class OwnedSlots {
 public:
  explicit OwnedSlots(std::size_t count) {
    const std::shared_ptr<MemoryRegion> memory = *MemoryRegion::allocate(count * kChunkBytes);
    for (std::size_t slot = 0; slot < count; ++slot)
      slots_.push_back({memory, slot * kChunkBytes, slot});
  }

  [[nodiscard]] std::vector<const ChunkSlot*> all() const { return part(0, slots_.size()); }
  [[nodiscard]] std::vector<const ChunkSlot*> part(std::size_t first, std::size_t count) const {
    std::vector<const ChunkSlot*> slots;
    for (std::size_t slot = first; slot < first + count; ++slot) slots.push_back(&slots_[slot]);
    return slots;
  }

 private:
  std::vector<ChunkSlot> slots_;
};

}  // namespace hearth::testing_support
