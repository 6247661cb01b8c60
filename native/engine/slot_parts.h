// How the slots of an arena are divided among shards when an engine starts; later they go to where
// memory is needed (SlotExchange). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

struct SlotToPart {
  std::size_t slot = 0;
  // Which shard owns the key of what an agent before has left in it; none: it is free.
  std::optional<std::size_t> owner;
};

// The slots of each shard, in order. What was left goes to its owner, wherever that takes no slot
// that another shard must have: each gets `fewest` or more, as far as there are as many. Of the
// free ones each shard gets those of its own stretch of the arena, as far as it needs them for an
// equal part: they lie on one NUMA node.
[[nodiscard]] std::vector<std::vector<std::size_t>> partSlots(std::span<const SlotToPart> slots,
                                                              std::size_t shards,
                                                              std::size_t fewest);

}  // namespace hearth
