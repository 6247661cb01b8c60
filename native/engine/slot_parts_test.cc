#include "engine/slot_parts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hearth {
namespace {

using Part = std::vector<std::size_t>;

std::vector<SlotToPart> freeSlots(std::size_t count) {
  std::vector<SlotToPart> slots;
  for (std::size_t slot = 0; slot < count; ++slot) slots.push_back({slot, {}});
  return slots;
}

TEST(SlotParts, AnArenaThatIsNewIsDividedIntoStretches) {
  const auto parts = partSlots(freeSlots(7), 2, 1);
  EXPECT_EQ(parts[0], (Part{0, 1, 2, 6}));
  EXPECT_EQ(parts[1], (Part{3, 4, 5}));
}

TEST(SlotParts, GivesChunksToTheirOwners) {
  std::vector<SlotToPart> slots = freeSlots(8);
  slots[0].owner = slots[1].owner = 1;
  const auto parts = partSlots(slots, 2, 1);
  EXPECT_EQ(parts[0].size(), 4u);
  EXPECT_EQ(parts[1].size(), 4u);
  for (const std::size_t slot : {0, 1}) {
    EXPECT_TRUE(std::ranges::binary_search(parts[1], slot)) << slot;
  }
}

// A shard that had borrowed most of the memory keeps what it has in it.
TEST(SlotParts, OneOwnerMayHaveMoreThanAnEqualPart) {
  std::vector<SlotToPart> slots = freeSlots(8);
  for (std::size_t slot = 0; slot < 6; ++slot) slots[slot].owner = 0;
  const auto parts = partSlots(slots, 2, 2);
  EXPECT_EQ(parts[0], (Part{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(parts[1], (Part{6, 7}));
}

// The number of shards may have changed, too.
TEST(SlotParts, EachShardHasItsFewestWhateverWasLeft) {
  std::vector<SlotToPart> slots = freeSlots(12);
  for (SlotToPart& slot : slots) slot.owner = 2;
  const auto parts = partSlots(slots, 3, 3);
  EXPECT_EQ(parts[0].size(), 3u);
  EXPECT_EQ(parts[1].size(), 3u);
  EXPECT_EQ(parts[2].size(), 6u);
}

TEST(SlotParts, FewerThanAllNeedAreDividedEvenly) {
  const auto parts = partSlots(freeSlots(3), 3, 4);
  for (const Part& part : parts) EXPECT_EQ(part.size(), 1u);
}

}  // namespace
}  // namespace hearth
