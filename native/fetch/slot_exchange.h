// Moves slots between the stocks of an engine's shards, to where memory is needed: a file belongs
// to one shard, and may be larger than that shard's part of the memory. The whole arena works like
// one memory that way, without a lock on any shard's path:
//
//   - A shard whose free slots run out asks the others, one after the other, for a batch. The
//     answer serves its waiters, mostly within a millisecond.
//   - A shard gives slots that it does not need. For an asker it also drops a file that has lain
//     unused for longer than the file that would go at the asker (memcached moves slabs between
//     classes by the age of their tails, too). A file that was used again does not go for one that
//     was used once, so a scan of many files on one shard empties no other.
//   - The reserves of a shard's pools always stay with it, so each shard gets on by itself.
//
// An asker that got nothing does not ask again for kPause, and drops chunks of its own.
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

  // Call in the order of the shards, before any of their threads runs. The arguments and this
  // object must remain live while any of these reactors runs.
  void join(Reactor& reactor, SlotStock& stock, MemoryTier& tier);
  // Begins the exchange, after all have joined.
  void open();
  // Ends the exchange; only slots on their way still move. Any thread.
  void close() { closed_.store(true, std::memory_order_relaxed); }

  // Slots that went from one shard to another. Any thread.
  [[nodiscard]] std::uint64_t moved() const { return moved_.load(std::memory_order_relaxed); }

 private:
  struct Member {
    Reactor& reactor;
    SlotStock& stock;
    MemoryTier& tier;
    bool asking = false;
    std::size_t last = 0;  // the member asked last
    Clock::time_point notBefore;
  };
  struct Request {
    std::size_t asker, asked;
    std::size_t others;  // still to be asked
    MemoryTier::Claim claim;
  };

  // On the thread of `self`. True: a question is under way, and its answer serves the waiters.
  bool want(std::size_t self);
  void ask(const Request& request);
  // On the thread of the member asked.
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
