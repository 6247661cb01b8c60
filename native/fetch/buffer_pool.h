// Chunk buffers of one shard for one purpose: slots of its stock, which its pools share. Acquiring
// waits; a request on whose bytes a reader waits goes before background work, and a quarter of the
// reserve is kept for such requests. Background work is served by its rank, the lowest first. All
// buffers of one request are given at once: requests that each held a part and waited for the rest
// could wait for ever. Used on the shard's thread only.
//
// Requests are made for owners, the datasets. Of those that are as urgent who holds the fewest is
// served first, and of these who was served longest ago. An owner alone may hold all; one that
// holds half goes behind background work of whoever holds none, so that no owner waits for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fetch/slot_stock.h"
#include "fetch/urgency.h"
#include "memory/memory_vector.h"
#include "reactor/reactor.h"

namespace hearth {

// How long who reads a slow origin gives buffers back to other owners and queues for them again,
// until that is an error.
inline constexpr auto kYieldingTimeout = std::chrono::minutes(10);

class BufferPool;

// Of one owner of buffers.
struct BufferOwner {
  std::size_t held = 0;
  std::uint64_t served = 0;  // when, as a count
};

// One buffer; its slot goes back to the stock when it is destroyed (on the shard's thread).
class ChunkBuffer {
 public:
  ChunkBuffer() = default;
  ChunkBuffer(ChunkBuffer&& other) noexcept
      : stock_(std::exchange(other.stock_, nullptr)),
        pool_(std::exchange(other.pool_, nullptr)),
        slot_(std::exchange(other.slot_, nullptr)),
        owner_(other.owner_) {}
  ChunkBuffer& operator=(ChunkBuffer&& other) noexcept {
    std::swap(stock_, other.stock_);
    std::swap(pool_, other.pool_);
    std::swap(slot_, other.slot_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~ChunkBuffer();

  // It counts as its pool's no more, nor as its owner's: the memory tier has it from now on. Who
  // waits for buffers is not served by that (SlotStock::serve).
  void leavePool();
  // Which slot of the arena it is.
  [[nodiscard]] std::size_t slot() const { return slot_->number; }
  // It has these bytes from now on, and nothing writes into it any more: the next process may take
  // it over.
  void publish(const SlotContents& contents);
  // I/O that reads from it begins, or has ended: no process may use it for something else
  // meanwhile.
  void noteBusy();
  void noteIdle();

  // `size` is at most kChunkBytes.
  [[nodiscard]] std::span<std::byte> first(std::size_t size) const { return {slot_->data(), size}; }
  // The same as a part of its region; `owner` has this buffer.
  [[nodiscard]] MemorySlice slice(std::size_t size, std::shared_ptr<const void> owner) const {
    return {slot_->memory, slot_->offset, size, std::move(owner)};
  }

 private:
  friend BufferPool;
  friend SlotStock;
  ChunkBuffer(SlotStock* stock, BufferPool* pool, const ChunkSlot* slot, BufferOwner* owner)
      : stock_(stock), pool_(pool), slot_(slot), owner_(owner) {}
  SlotStock* stock_ = nullptr;
  BufferPool* pool_ = nullptr;
  const ChunkSlot* slot_ = nullptr;
  BufferOwner* owner_ = nullptr;  // the pool's, for as long as it holds any
};

class BufferPool {
 public:
  // `reserve`: slots that no other pool of the stock takes, at least SlotStock::kFewest. `reactor`
  // and `stock` must remain live while this object is used.
  BufferPool(Reactor& reactor, SlotStock& stock, std::size_t reserve);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // What it may hold at most.
  [[nodiscard]] std::size_t capacity() const { return stock_.limitOf(*this); }
  [[nodiscard]] std::size_t reserve() const { return reserve_; }
  // Asked when buffers are short for a request of that priority and the stock has none to reclaim:
  // makes one of this pool's come back, now or soon, and says whether it did.
  void setReclaim(std::function<bool(Priority)> reclaim) { reclaim_ = std::move(reclaim); }
  // Serves who waits and can be served now; for whoever can reclaim more than when they began.
  void serveWaiters();
  // Others wait, and this owner holds more than its part of what all of them may: it should give
  // back what it uses slowly.
  [[nodiscard]] bool shouldYield(const std::string& owner) const;
  // Any thread.
  [[nodiscard]] std::size_t inUse() const { return inUse_.load(std::memory_order_relaxed); }

 private:
  friend ChunkBuffer;
  friend SlotStock;
  struct Waiter {
    BufferPool& pool;
    Priority priority;
    std::size_t count;
    std::uint32_t rank;
    std::string owner;
    std::coroutine_handle<> awaiter;
    std::vector<ChunkBuffer> buffers;

    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    std::vector<ChunkBuffer> await_resume() { return std::move(buffers); }
    // A reader waits for it from now on.
    void raise();
  };

 public:
  // Awaitable: `count` buffers, at most half the reserve. `rank`: of background work.
  // `owner`: the id of the dataset that they are for.
  [[nodiscard]] Waiter acquire(Priority priority, std::size_t count, std::uint32_t rank = 0,
                               std::string owner = {}) {
    return Waiter{*this, priority, count, rank, std::move(owner), {}, {}};
  }
  // One buffer as background work has it, for who can do without: nothing while others wait, or
  // where what would go for it is still to be read.
  [[nodiscard]] std::optional<ChunkBuffer> takeNow();
  // As acquire(), served as demand once that is raised; it outlives the task.
  [[nodiscard]] Task<std::vector<ChunkBuffer>> acquire(Urgency& urgency, std::size_t count,
                                                       std::uint32_t rank, std::string owner = {});

 private:
  [[nodiscard]] std::size_t keptForDemand() const { return reserve_ / 4; }
  [[nodiscard]] bool mayTake(Priority priority, std::size_t count) const;
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count);
  // As long as `reclaim` has slots come back.
  template <class Reclaim>
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count, Reclaim reclaim);
  std::vector<ChunkBuffer> take(std::size_t count, const std::string& owner);
  // Of those that are as urgent as the first; the queue is not empty.
  [[nodiscard]] Waiter* fairest(const std::deque<Waiter*>& queue) const;
  // Who in the background goes before this owner, because it holds none and this one half; or null.
  [[nodiscard]] Waiter* waiterBefore(const std::string& owner) const;
  [[nodiscard]] BufferOwner of(const std::string& owner) const;
  bool serveFirst();
  void noteLeft(BufferOwner& owner);

  Reactor& reactor_;
  SlotStock& stock_;
  const std::size_t reserve_;
  std::atomic<std::size_t> inUse_{0};
  std::uint64_t turn_ = 0;
  // Those that hold some, and while anybody waits those that held some before.
  std::map<std::string, BufferOwner> owners_;
  std::deque<Waiter*> demand_;
  std::deque<Waiter*> background_;  // by rank, then by arrival
  std::function<bool(Priority)> reclaim_ = [](Priority) { return false; };
};

}  // namespace hearth
