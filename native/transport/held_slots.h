// Slots of the arena that RDMA devices read while answers leave from them. A slot whose answer is
// under way cannot be taken back, so this bounds how many slots one peer, and all peers together,
// hold at a time. One for each shard, shared by its ports. On the reactor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace hearth {

class HeldSlots : public std::enable_shared_from_this<HeldSlots> {
 public:
  struct Limits {
    std::size_t total = 0, perPeer = 0;  // slots
    // Half of a shard's part of the arena for all peers, and a quarter for one of them, though no
    // more than kSlotsPerPeer.
    [[nodiscard]] static Limits of(std::uint64_t arenaBytes, std::uint32_t shards);
  };
  // As many as two ports' requests of one peer.
  static constexpr std::size_t kSlotsPerPeer = 64;

  explicit HeldSlots(Limits limits) : limits_(limits) {}

  // Keeps `keep`, the owner of the slot that begins at `slot`, until the result goes, which must be
  // on this thread. Null: `peer` or all peers together hold as many slots as they may. A slot
  // counts once for a peer, however many of its answers leave from there.
  [[nodiscard]] std::shared_ptr<const void> hold(const std::string& peer, const std::byte* slot,
                                                 std::shared_ptr<const void> keep);
  // Slots that are held now, a slot once for each of its peers.
  [[nodiscard]] std::size_t held() const { return held_; }

 private:
  // The number of answers under way from each slot.
  using Slots = std::map<const std::byte*, std::uint32_t>;

  void release(const std::string& peer, const std::byte* slot);

  const Limits limits_;
  std::map<std::string, Slots> peers_;  // of peers that hold some
  std::size_t held_ = 0;
};

}  // namespace hearth
