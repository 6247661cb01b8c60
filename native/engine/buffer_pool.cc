#include "engine/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/generated/constants.h"

namespace hearth {
namespace {

constexpr std::size_t kFewest = 4;
// After this long without use the memory goes back to the kernel.
constexpr auto kIdle = std::chrono::seconds(3);

}  // namespace

ChunkBuffer::~ChunkBuffer() {
  if (pool_ != nullptr) pool_->giveBack(data_);
}

Result<std::unique_ptr<BufferPool>> BufferPool::create(Reactor& reactor, std::size_t buffers) {
  buffers = std::max(buffers, kFewest);
  void* const memory = mmap(nullptr, buffers * kChunkBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return errnoError(errno, "reserving memory for chunk buffers");
  madvise(memory, buffers * kChunkBytes, MADV_HUGEPAGE);
  return std::unique_ptr<BufferPool>(
      new BufferPool(reactor, static_cast<std::byte*>(memory), buffers));
}

BufferPool::BufferPool(Reactor& reactor, std::byte* memory, std::size_t buffers)
    : reactor_(reactor), memory_(memory), capacity_(buffers), trimTimer_(reactor) {
  for (std::size_t i = buffers; i-- > 0;) free_.push_back(memory + i * kChunkBytes);
}

BufferPool::~BufferPool() { munmap(memory_, capacity_ * kChunkBytes); }

bool BufferPool::mayTake(Priority priority, std::size_t count) const {
  const std::size_t kept = priority == Priority::kDemand ? 0 : capacity_ / 4;
  return free_.size() >= count + kept;
}

bool BufferPool::makeRoom(Priority priority, std::size_t count) {
  // What comes back meanwhile is for this request: those that wait come later anyway.
  reclaiming_ = true;
  while (!mayTake(priority, count) && reclaim_()) {
  }
  reclaiming_ = false;
  return mayTake(priority, count);
}

std::vector<ChunkBuffer> BufferPool::take(std::size_t count) {
  std::vector<ChunkBuffer> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(ChunkBuffer(this, free_.back()));
    free_.pop_back();
  }
  inUse_.fetch_add(count, std::memory_order_relaxed);
  return taken;
}

bool BufferPool::serveFirst(std::deque<Waiter*>& queue) {
  if (queue.empty() || !makeRoom(queue.front()->priority, queue.front()->count)) return false;
  Waiter* const waiter = queue.front();
  queue.pop_front();
  waiter->buffers = take(waiter->count);
  reactor_.resumeSoon(waiter->awaiter);
  return true;
}

void BufferPool::giveBack(std::byte* data) {
  free_.push_back(data);
  const std::size_t left = inUse_.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (reclaiming_) return;
  const bool served = serveFirst(demand_.empty() ? background_ : demand_);
  if (!served && left == 0) trimTimer_.start(Clock::now() + kIdle, [this] { trim(); });
}

void BufferPool::serveWaiters() {
  while (serveFirst(demand_.empty() ? background_ : demand_)) {
  }
}

void BufferPool::trim() {
  if (free_.size() == capacity_) madvise(memory_, capacity_ * kChunkBytes, MADV_DONTNEED);
}

bool BufferPool::Waiter::await_ready() {
  const bool first =
      pool.demand_.empty() && (priority == Priority::kDemand || pool.background_.empty() ||
                               rank < pool.background_.front()->rank);
  if (!first || !pool.makeRoom(priority, count)) return false;
  buffers = pool.take(count);
  return true;
}

void BufferPool::Waiter::await_suspend(std::coroutine_handle<> handle) {
  awaiter = handle;
  if (priority == Priority::kDemand) {
    pool.demand_.push_back(this);
    return;
  }
  const auto after =
      std::upper_bound(pool.background_.begin(), pool.background_.end(), rank,
                       [](std::uint32_t own, const Waiter* other) { return own < other->rank; });
  pool.background_.insert(after, this);
}

void BufferPool::Waiter::raise() {
  if (std::exchange(priority, Priority::kDemand) == Priority::kDemand) return;
  if (std::erase(pool.background_, this) == 0) return;  // not waiting yet, or served already
  pool.demand_.push_back(this);
  pool.serveWaiters();
}

Task<std::vector<ChunkBuffer>> BufferPool::acquire(Urgency& urgency, std::size_t count,
                                                   std::uint32_t rank) {
  auto acquiring = acquire(urgency.priority(), count, rank);
  const Urgency::Watch watch(urgency, [&acquiring] { acquiring.raise(); });
  std::vector<ChunkBuffer> buffers = co_await acquiring;
  co_return std::move(buffers);
}

}  // namespace hearth
