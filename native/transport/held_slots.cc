#include "transport/held_slots.h"

#include <algorithm>
#include <utility>

#include "base/generated/constants.h"

namespace hearth {

HeldSlots::Limits HeldSlots::Limits::of(std::uint64_t arenaBytes, std::uint32_t shards) {
  const std::size_t slots = arenaBytes / kChunkBytes / std::max(shards, 1u);
  return {slots / 2, std::min(slots / 4, kSlotsPerPeer)};
}

std::shared_ptr<const void> HeldSlots::hold(const std::string& peer, const std::byte* slot,
                                            std::shared_ptr<const void> keep) {
  const auto known = peers_.find(peer);
  const bool isHeld = known != peers_.end() && known->second.contains(slot);
  if (!isHeld) {
    const std::size_t ofPeer = known == peers_.end() ? 0 : known->second.size();
    if (held_ >= limits_.total || ofPeer >= limits_.perPeer) return nullptr;
    ++held_;
  }
  ++peers_[peer][slot];
  const void* const address = keep.get();
  return {address,
          [self = shared_from_this(), peer, slot, keep = std::move(keep)](const void*) mutable {
            keep.reset();
            self->release(peer, slot);
          }};
}

void HeldSlots::release(const std::string& peer, const std::byte* slot) {
  const auto known = peers_.find(peer);
  const auto found = known->second.find(slot);
  if (--found->second != 0) return;
  known->second.erase(found);
  --held_;
  if (known->second.empty()) peers_.erase(known);
}

}  // namespace hearth
