// Divides the slots of an arena among shards when an engine starts; later they move to where memory
// is needed (SlotExchange). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

struct SlotToPart {
  std::size_t slot = 0;
  // The shard that owns the key of the chunk that the previous agent left in the slot; none: the
  // slot is free.
  std::optional<std::size_t> owner;
};

// Returns the slots of each shard, in order. A chunk goes to its owner, unless that takes a slot
// that another shard must have: each shard gets at least `fewest` slots, as far as there are
// enough. Each shard gets free slots from its own stretch of the arena, up to an equal part: they
// lie on one NUMA node.
[[nodiscard]] std::vector<std::vector<std::size_t>> partSlots(std::span<const SlotToPart> slots,
                                                              std::size_t shards,
                                                              std::size_t fewest);

}  // namespace hearth
