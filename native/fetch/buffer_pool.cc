#include "fetch/buffer_pool.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "base/generated/constants.h"

namespace hearth {
namespace {

constexpr std::size_t kFewest = 4;
// After this long without use the memory goes back to the kernel.
constexpr auto kIdle = std::chrono::seconds(3);

}  // namespace

ChunkBuffer::~ChunkBuffer() {
  if (pool_ != nullptr) pool_->giveBack(data_, *owner_);
}

Result<std::unique_ptr<BufferPool>> BufferPool::create(Reactor& reactor, std::size_t buffers) {
  buffers = std::max(buffers, kFewest);
  auto memory = MemoryRegion::allocate(buffers * kChunkBytes);
  if (!memory.ok()) return memory.error().within("chunk buffers");
  return std::unique_ptr<BufferPool>(new BufferPool(reactor, std::move(*memory)));
}

BufferPool::BufferPool(Reactor& reactor, std::shared_ptr<MemoryRegion> memory)
    : reactor_(reactor),
      memory_(std::move(memory)),
      capacity_(memory_->size() / kChunkBytes),
      trimTimer_(reactor) {
  for (std::size_t i = capacity_; i-- > 0;)
    free_.push_back(memory_->bytes().subspan(i * kChunkBytes).data());
}

MemorySlice ChunkBuffer::slice(std::size_t size, std::shared_ptr<const void> owner) const {
  const std::shared_ptr<MemoryRegion>& memory = pool_->memory_;
  const auto offset = static_cast<std::uint64_t>(data_ - memory->bytes().data());
  return {memory, offset, size, std::move(owner)};
}

bool BufferPool::mayTake(Priority priority, std::size_t count) const {
  const std::size_t kept = priority == Priority::kDemand ? 0 : keptForDemand();
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

std::vector<ChunkBuffer> BufferPool::take(std::size_t count, const std::string& owner) {
  BufferOwner& taking = owners_[owner];
  taking.held += count;
  taking.served = ++turn_;
  std::vector<ChunkBuffer> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(ChunkBuffer(this, free_.back(), &taking));
    free_.pop_back();
  }
  inUse_.fetch_add(count, std::memory_order_relaxed);
  return taken;
}

BufferOwner BufferPool::of(const std::string& owner) const {
  const auto known = owners_.find(owner);
  return known == owners_.end() ? BufferOwner() : known->second;
}

BufferPool::Waiter* BufferPool::fairest(const std::deque<Waiter*>& queue) const {
  Waiter* best = queue.front();
  BufferOwner bestOwner = of(best->owner);
  for (Waiter* const each : queue) {
    // Demand has no ranks; what was raised has kept its own.
    if (each->priority == Priority::kBackground && each->rank != best->rank) break;
    const BufferOwner owner = of(each->owner);
    if (std::tie(owner.held, owner.served) >= std::tie(bestOwner.held, bestOwner.served)) continue;
    best = each;
    bestOwner = owner;
  }
  return best;
}

BufferPool::Waiter* BufferPool::waiterBefore(const std::string& owner) const {
  if (2 * of(owner).held < capacity_) return nullptr;
  const auto place =
      std::find_if(background_.begin(), background_.end(),
                   [this](const Waiter* waiter) { return of(waiter->owner).held == 0; });
  return place == background_.end() ? nullptr : *place;
}

bool BufferPool::shouldYield(const std::string& owner) const {
  std::set<std::string_view> waiting;
  for (const auto* const queue : {&demand_, &background_}) {
    for (const Waiter* const waiter : *queue) waiting.insert(waiter->owner);
  }
  waiting.erase(owner);
  if (waiting.empty()) return false;
  std::set<std::string_view> all = std::move(waiting);
  all.insert(owner);
  for (const auto& [name, each] : owners_) {
    if (each.held != 0) all.insert(name);
  }
  return of(owner).held * all.size() > capacity_ - keptForDemand();
}

bool BufferPool::serveFirst() {
  const std::deque<Waiter*>& queue = demand_.empty() ? background_ : demand_;
  if (queue.empty()) return false;
  Waiter* waiter = fairest(queue);
  // With the right to what is kept for demand where it goes before that: else it might starve.
  const Priority priority = waiter->priority;
  if (Waiter* const without = waiterBefore(waiter->owner)) waiter = without;
  if (!makeRoom(priority, waiter->count)) return false;
  std::erase(waiter->priority == Priority::kDemand ? demand_ : background_, waiter);
  waiter->buffers = take(waiter->count, waiter->owner);
  reactor_.resumeSoon(waiter->awaiter);
  return true;
}

void BufferPool::giveBack(std::byte* data, BufferOwner& owner) {
  free_.push_back(data);
  if (--owner.held == 0 && demand_.empty() && background_.empty())
    std::erase_if(owners_, [](const auto& each) { return each.second.held == 0; });
  const std::size_t left = inUse_.fetch_sub(1, std::memory_order_relaxed) - 1;
  if (reclaiming_) return;
  const bool served = serveFirst();
  if (!served && left == 0) trimTimer_.start(Clock::now() + kIdle, [this] { trim(); });
}

void BufferPool::serveWaiters() {
  while (serveFirst()) {
  }
}

void BufferPool::trim() {
  if (free_.size() == capacity_) memory_->decommit();
}

bool BufferPool::Waiter::await_ready() {
  const bool first =
      pool.demand_.empty() && (priority == Priority::kDemand || pool.background_.empty() ||
                               rank < pool.background_.front()->rank);
  if (!first || pool.waiterBefore(owner) != nullptr || !pool.makeRoom(priority, count))
    return false;
  buffers = pool.take(count, owner);
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
                                                   std::uint32_t rank, std::string owner) {
  auto acquiring = acquire(urgency.priority(), count, rank, std::move(owner));
  const Urgency::Watch watch(urgency, [&acquiring] { acquiring.raise(); });
  std::vector<ChunkBuffer> buffers = co_await acquiring;
  co_return std::move(buffers);
}

}  // namespace hearth
