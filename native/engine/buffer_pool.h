// Chunk buffers of one shard: a fixed number of 4 MiB pieces of one mapping, huge pages where the
// kernel gives them. Acquiring waits; a request on whose bytes a reader waits goes before
// background work, and the last quarter is kept for such requests. Background work is served by its
// rank, the lowest first. All buffers of one request are
// given at once: requests that each held a part and waited for the rest could wait for ever. Used
// on the shard's thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/urgency.h"
#include "reactor/reactor.h"

namespace hearth {

class BufferPool;

// One buffer; goes back to its pool when destroyed (on the shard's thread).
class ChunkBuffer {
 public:
  ChunkBuffer() = default;
  ChunkBuffer(ChunkBuffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
  ChunkBuffer& operator=(ChunkBuffer&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~ChunkBuffer();

  // `size` is at most kChunkBytes.
  [[nodiscard]] std::span<std::byte> first(std::size_t size) const { return {data_, size}; }

 private:
  friend BufferPool;
  ChunkBuffer(BufferPool* pool, std::byte* data) : pool_(pool), data_(data) {}
  BufferPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
};

class BufferPool {
 public:
  // At least four buffers.
  [[nodiscard]] static Result<std::unique_ptr<BufferPool>> create(Reactor& reactor,
                                                                  std::size_t buffers);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  // Asked when buffers are short: makes one come back, now or soon, and says whether it did. It is
  // not called while the pool has what is asked for.
  void setReclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // Serves who waits and can be served now; for whoever can reclaim more than when they began.
  void serveWaiters();
  // Any thread.
  [[nodiscard]] std::size_t inUse() const { return inUse_.load(std::memory_order_relaxed); }

 private:
  friend ChunkBuffer;
  struct Waiter {
    BufferPool& pool;
    Priority priority;
    std::size_t count;
    std::uint32_t rank;
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
  [[nodiscard]] Waiter acquire(Priority priority, std::size_t count, std::uint32_t rank = 0) {
    return Waiter{*this, priority, count, rank, {}, {}};
  }
  // The same, served as demand once that is raised; it outlives the task.
  [[nodiscard]] Task<std::vector<ChunkBuffer>> acquire(Urgency& urgency, std::size_t count,
                                                       std::uint32_t rank);

 private:
  BufferPool(Reactor& reactor, std::byte* memory, std::size_t buffers);
  [[nodiscard]] bool mayTake(Priority priority, std::size_t count) const;
  [[nodiscard]] bool makeRoom(Priority priority, std::size_t count);
  std::vector<ChunkBuffer> take(std::size_t count);
  bool serveFirst(std::deque<Waiter*>& queue);
  void giveBack(std::byte* data);
  void trim();

  Reactor& reactor_;
  std::byte* memory_;
  std::size_t capacity_;
  std::vector<std::byte*> free_;
  std::atomic<std::size_t> inUse_{0};
  std::deque<Waiter*> demand_;
  std::deque<Waiter*> background_;  // by rank, then by arrival
  bool reclaiming_ = false;
  std::function<bool()> reclaim_ = [] { return false; };
  Reactor::Timer trimTimer_;
};

}  // namespace hearth
