#include "engine/slot_parts.h"

#include <algorithm>

namespace hearth {
namespace {

using Parts = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t>& smallest(Parts& parts) {
  return *std::ranges::min_element(parts, {}, &std::vector<std::size_t>::size);
}

std::vector<std::size_t>& largest(Parts& parts) {
  return *std::ranges::max_element(parts, {}, &std::vector<std::size_t>::size);
}

// A shard that gets a chunk of another owner frees it.
void giveFewest(Parts& parts, std::size_t fewest) {
  while (smallest(parts).size() < fewest && largest(parts).size() > fewest) {
    std::vector<std::size_t>& from = largest(parts);
    smallest(parts).push_back(from.back());
    from.pop_back();
  }
}

}  // namespace

std::vector<std::vector<std::size_t>> partSlots(std::span<const SlotToPart> slots,
                                                std::size_t shards, std::size_t fewest) {
  Parts parts(shards);
  const std::size_t share = std::max<std::size_t>(slots.size() / shards, 1);
  for (const SlotToPart& each : slots) {
    if (each.owner) parts[*each.owner].push_back(each.slot);
  }
  std::vector<std::size_t> rest;
  for (std::size_t at = 0; at < slots.size(); ++at) {
    if (slots[at].owner) continue;
    std::vector<std::size_t>& own = parts[std::min(at / share, shards - 1)];
    (own.size() < share ? own : rest).push_back(slots[at].slot);
  }
  for (const std::size_t slot : rest) smallest(parts).push_back(slot);
  giveFewest(parts, fewest);
  for (std::vector<std::size_t>& part : parts) std::ranges::sort(part);
  return parts;
}

}  // namespace hearth
