// Chunk buffers of one shard for one purpose: slots of the stock that the shard's pools share. A
// request waits until it gets all of its buffers at once: requests that each held a part and waited
// for the rest could wait for ever. Requests of readers go before background work, which is served
// by rank, the lowest first; the pool keeps a quarter of its reserve for readers. Used on the
// shard's thread only.
//
// Each request has an owner, a dataset. Among requests of the same urgency the pool serves the
// owner that holds the fewest buffers first, and among these the owner served longest ago. A single
// owner may hold all buffers; an owner that holds half goes behind background work of an owner that
// holds none, so that no owner waits for ever.
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

// A fetch from a slow origin gives its buffers to other owners and queues for them again. After
// this long it fails.
inline constexpr auto kYieldingTimeout = std::chrono::minutes(10);

class BufferPool;

struct BufferOwner {
  std::size_t held = 0;
  std::uint64_t served = 0;  // the pool's turn when it was served last
};

// One buffer. The destructor, on the shard's thread, gives the slot back to the stock.
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

  // Takes the buffer out of the counts of its pool and owner: the memory tier has it from now on.
  // Does not serve waiters (SlotStock::serve).
  void leavePool();
  // Number of the slot in the arena.
  [[nodiscard]] std::size_t slot() const { return slot_->number; }
  // Records `contents` in the arena's index, so that the next process may take the slot over.
  // Nothing writes into the buffer afterwards.
  void publish(const SlotContents& contents);
  // I/O that reads from the buffer begins, or has ended. No process reuses the slot in between.
  void noteBusy();
  void noteIdle();

  // `size` is at most kChunkBytes.
  [[nodiscard]] std::span<std::byte> first(std::size_t size) const { return {slot_->data(), size}; }
  // The same bytes as a slice of their region; `owner` keeps this buffer alive.
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
  // `reserve`: slots that no other pool of the stock takes, at least SlotStock::kFewest, or two for
  // requests of one slot. `reactor` and `stock` must remain live while this object is used.
  BufferPool(Reactor& reactor, SlotStock& stock, std::size_t reserve);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Slots that the pool may hold at most.
  [[nodiscard]] std::size_t capacity() const { return stock_.limitOf(*this); }
  [[nodiscard]] std::size_t reserve() const { return reserve_; }
  // `reclaim`: called when buffers are short for a request of that priority and the stock has none
  // to reclaim. Makes a buffer of this pool come back, now or soon; false: none can.
  void setReclaim(std::function<bool(Priority)> reclaim) { reclaim_ = std::move(reclaim); }
  // Serves every waiter that can be served now, after more has become reclaimable.
  void serveWaiters();
  // True: other owners wait, and `owner` holds more than its share, so it should give back buffers
  // that it fills slowly.
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
    // Moves the request to demand: a reader waits for it now.
    void raise();
  };

 public:
  // Awaitable: `count` buffers, at most half the reserve. `rank`: of background work. `owner`: the
  // id of the dataset.
  [[nodiscard]] Waiter acquire(Priority priority, std::size_t count, std::uint32_t rank = 0,
                               std::string owner = {}) {
    return Waiter{*this, priority, count, rank, std::move(owner), {}, {}};
  }
  // One buffer for background work that can do without. None while requests wait, or while only
  // chunks that readers have yet to read could make room.
  [[nodiscard]] std::optional<ChunkBuffer> takeNow();
  // As acquire(), but served as demand once `urgency` is raised. `urgency` must outlive the task.
  [[nodiscard]] Task<std::vector<ChunkBuffer>> acquire(Urgency& urgency, std::size_t count,
                                                       std::uint32_t rank, std::string owner = {});

 private:
  [[nodiscard]] std::size_t keptForDemand() const { return reserve_ / 4; }
  [[nodiscard]] bool mayTake(Priority priority, std::size_t count) const;
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count);
  // Calls `reclaim` until the request fits or no more slots come back.
  template <class Reclaim>
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count, Reclaim reclaim);
  std::vector<ChunkBuffer> take(std::size_t count, const std::string& owner);
  // The waiter to serve first among those as urgent as the first. `queue` must not be empty.
  [[nodiscard]] Waiter* fairest(const std::deque<Waiter*>& queue) const;
  // A background waiter whose owner holds nothing, if `owner` holds half; else null.
  [[nodiscard]] Waiter* waiterBefore(const std::string& owner) const;
  [[nodiscard]] BufferOwner of(const std::string& owner) const;
  bool serveFirst();
  void noteLeft(BufferOwner& owner);

  Reactor& reactor_;
  SlotStock& stock_;
  const std::size_t reserve_;
  std::atomic<std::size_t> inUse_{0};
  std::uint64_t turn_ = 0;
  // Owners that hold buffers and, while anybody waits, owners that held some before.
  std::map<std::string, BufferOwner> owners_;
  std::deque<Waiter*> demand_;
  std::deque<Waiter*> background_;  // by rank, then by arrival
  std::function<bool(Priority)> reclaim_ = [](Priority) { return false; };
};

}  // namespace hearth
