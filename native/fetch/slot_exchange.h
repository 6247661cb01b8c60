// Moves slots between the stocks of an engine's shards, to where memory is needed: a file belongs
// to one shard, and may be larger than that shard's part of the memory. The whole arena works like
// one memory that way, without a lock on any shard's path:
//
//   - A shard whose free slots run out asks the others, one after the other, for a batch. Who waits
//     there for memory gets it when they answer, mostly within a millisecond.
//   - What a shard does not need it gives. For the sake of what is used more it lets go of a file
//     that has lain unused for longer than what would go at the asker (memcached moves slabs
//     between classes by the age of their tails, too). A file that was used again does not go for
//     one that was used once, so a scan of many files on one shard empties no other.
//   - The reserves of a shard's pools always stay with it, so each shard gets on by itself.
//
// An asker to which none gave anything does not ask again for kPause, and lets go of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "fetch/memory_tier.h"
#include "fetch/slot_stock.h"
#include "reactor/reactor.h"

namespace hearth {

class SlotExchange {
 public:
  static constexpr std::size_t kBatch = SlotStock::kBatch;
  static constexpr auto kPause = std::chrono::milliseconds(100);

  SlotExchange() = default;
  SlotExchange(const SlotExchange&) = delete;
  SlotExchange& operator=(const SlotExchange&) = delete;

  // Before any of their threads runs, in the order of the shards. All must remain live while a
  // reactor of them runs, as must this object.
  void join(Reactor& reactor, SlotStock& stock, MemoryTier& tier);
  // All have joined.
  void open();
  // Nothing moves any more but what is on its way. Any thread.
  void close() { closed_.store(true, std::memory_order_relaxed); }

  // Slots that went from one shard to another. Any thread.
  [[nodiscard]] std::uint64_t moved() const { return moved_.load(std::memory_order_relaxed); }

 private:
  struct Member {
    Reactor& reactor;
    SlotStock& stock;
    MemoryTier& tier;
    bool asking = false;
    std::size_t last = 0;  // who was asked last
    Clock::time_point notBefore;
  };
  struct Request {
    std::size_t asker, asked;
    std::size_t others;  // that are still to be asked
    MemoryTier::Claim claim;
  };

  // On the thread of `self`. True: it has asked, and is served when there is an answer.
  bool want(std::size_t self);
  void ask(const Request& request);
  // On the thread of who is asked.
  void answer(const Request& request);
  [[nodiscard]] std::vector<const ChunkSlot*> give(Member& asked, const MemoryTier::Claim& claim);
  // On the thread of the asker.
  void receive(const Request& request, const std::vector<const ChunkSlot*>& slots);
  [[nodiscard]] std::size_t following(std::size_t member) const {
    return (member + 1) % members_.size();
  }

  std::vector<Member> members_;
  std::atomic<bool> closed_{true};
  std::atomic<std::uint64_t> moved_{0};
};

}  // namespace hearth
