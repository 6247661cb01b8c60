// Chunk buffers of one shard: a fixed number of 4 MiB pieces of one region of memory, huge pages
// where the kernel gives them. Acquiring waits; a request on whose bytes a reader waits goes before
// background work, and the last quarter is kept for such requests. Background work is served by its
// rank, the lowest first. All buffers of one request are given at once: requests that each held a
// part and waited for the rest could wait for ever. Used on the shard's thread only.
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
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
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

// One buffer; goes back to its pool when destroyed (on the shard's thread).
class ChunkBuffer {
 public:
  ChunkBuffer() = default;
  ChunkBuffer(ChunkBuffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        owner_(other.owner_) {}
  ChunkBuffer& operator=(ChunkBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~ChunkBuffer();

  // `size` is at most kChunkBytes.
  [[nodiscard]] std::span<std::byte> first(std::size_t size) const { return {data_, size}; }
  // The same as a part of the pool's memory; `owner` has this buffer.
  [[nodiscard]] MemorySlice slice(std::size_t size, std::shared_ptr<const void> owner) const;

 private:
  friend BufferPool;
  ChunkBuffer(BufferPool* pool, std::byte* data, BufferOwner* owner)
      : pool_(pool), data_(data), owner_(owner) {}
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  BufferOwner* owner_ = nullptr;  // the pool's, for as long as it holds any
};

class BufferPool {
 public:
  // At least four buffers. `reactor` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<BufferPool>> create(Reactor& reactor,
                                                                  std::size_t buffers);
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  // Asked when buffers are short: makes one come back, now or soon, and says whether it did. It is
  // not called while the pool has what is asked for.
  void setReclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // Serves who waits and can be served now; for whoever can reclaim more than when they began.
  void serveWaiters();
  // Others wait, and this owner holds more than its part of what all of them may: it should give
  // back what it uses slowly.
  [[nodiscard]] bool shouldYield(const std::string& owner) const;
  // Any thread.
  [[nodiscard]] std::size_t inUse() const { return inUse_.load(std::memory_order_relaxed); }

 private:
  friend ChunkBuffer;
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
  // Awaitable: `count` buffers, at most half the capacity. `rank`: of background work.
  // `owner`: the id of the dataset that they are for.
  [[nodiscard]] Waiter acquire(Priority priority, std::size_t count, std::uint32_t rank = 0,
                               std::string owner = {}) {
    return Waiter{*this, priority, count, rank, std::move(owner), {}, {}};
  }
  // The same, served as demand once that is raised; it outlives the task.
  [[nodiscard]] Task<std::vector<ChunkBuffer>> acquire(Urgency& urgency, std::size_t count,
                                                       std::uint32_t rank, std::string owner = {});

 private:
  BufferPool(Reactor& reactor, std::shared_ptr<MemoryRegion> memory);
  [[nodiscard]] std::size_t keptForDemand() const { return capacity_ / 4; }
  [[nodiscard]] bool mayTake(Priority priority, std::size_t count) const;
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count);
  std::vector<ChunkBuffer> take(std::size_t count, const std::string& owner);
  // Of those that are as urgent as the first; the queue is not empty.
  [[nodiscard]] Waiter* fairest(const std::deque<Waiter*>& queue) const;
  // Who in the background goes before this owner, because it holds none and this one half; or null.
  [[nodiscard]] Waiter* waiterBefore(const std::string& owner) const;
  [[nodiscard]] BufferOwner of(const std::string& owner) const;
  bool serveFirst();
  void giveBack(std::byte* data, BufferOwner& owner);
  void trim();

  Reactor& reactor_;
  const std::shared_ptr<MemoryRegion> memory_;
  const std::size_t capacity_;
  std::vector<std::byte*> free_;
  std::atomic<std::size_t> inUse_{0};
  std::uint64_t turn_ = 0;
  // Those that hold some, and while anybody waits those that held some before.
  std::map<std::string, BufferOwner> owners_;
  std::deque<Waiter*> demand_;
  std::deque<Waiter*> background_;  // by rank, then by arrival
  bool reclaiming_ = false;
  std::function<bool()> reclaim_ = [] { return false; };
  Reactor::Timer trimTimer_;
};

}  // namespace hearth
