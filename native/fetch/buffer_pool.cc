#include "fetch/buffer_pool.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "base/generated/constants.h"

namespace hearth {

ChunkBuffer::~ChunkBuffer() {
  if (stock_ == nullptr) return;
  leavePool();
  stock_->put(slot_);
  stock_->serve();
}

void ChunkBuffer::leavePool() {
  if (BufferPool* const pool = std::exchange(pool_, nullptr)) pool->noteLeft(*owner_);
}

void ChunkBuffer::publish(const SlotContents& contents) {
  if (stock_->index_ != nullptr) stock_->index_->publish(slot_->number, contents);
}

void ChunkBuffer::noteBusy() {
  if (stock_->index_ != nullptr) stock_->index_->noteBusy(slot_->number);
}

void ChunkBuffer::noteIdle() {
  if (stock_->index_ != nullptr) stock_->index_->noteIdle(slot_->number);
}

BufferPool::BufferPool(Reactor& reactor, SlotStock& stock, std::size_t reserve)
    : reactor_(reactor), stock_(stock), reserve_(reserve) {
  stock_.join(*this);
}

BufferPool::~BufferPool() { stock_.leave(*this); }

bool BufferPool::mayTake(Priority priority, std::size_t count) const {
  const std::size_t kept = priority == Priority::kDemand ? 0 : keptForDemand();
  return stock_.availableTo(*this) >= count + kept;
}

template <class Reclaim>
bool BufferPool::makeRoom(Priority priority, std::size_t count, Reclaim reclaim) {
  // Slots that come back meanwhile are for this request: waiters come later anyway.
  stock_.reclaiming_ = true;
  while (!mayTake(priority, count) && reclaim()) {
  }
  stock_.reclaiming_ = false;
  return mayTake(priority, count);
}

bool BufferPool::makeRoom(Priority priority, std::size_t count) {
  return makeRoom(priority, count, [&] { return stock_.reclaim(*this, priority); });
}

std::vector<ChunkBuffer> BufferPool::take(std::size_t count, const std::string& owner) {
  BufferOwner& taking = owners_[owner];
  taking.held += count;
  taking.served = ++turn_;
  std::vector<ChunkBuffer> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(ChunkBuffer(&stock_, this, stock_.take(), &taking));
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
    // Demand ignores ranks; a raised request keeps its own.
    if (each->priority == Priority::kBackground && each->rank != best->rank) break;
    const BufferOwner owner = of(each->owner);
    if (std::tie(owner.held, owner.served) >= std::tie(bestOwner.held, bestOwner.served)) continue;
    best = each;
    bestOwner = owner;
  }
  return best;
}

BufferPool::Waiter* BufferPool::waiterBefore(const std::string& owner) const {
  if (2 * of(owner).held < capacity()) return nullptr;
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
  return of(owner).held * all.size() > capacity() - keptForDemand();
}

bool BufferPool::serveFirst() {
  const std::deque<Waiter*>& queue = demand_.empty() ? background_ : demand_;
  if (queue.empty()) return false;
  Waiter* waiter = fairest(queue);
  // A background waiter that goes before demand may use the part kept for demand: else it might
  // starve.
  const Priority priority = waiter->priority;
  if (Waiter* const without = waiterBefore(waiter->owner)) waiter = without;
  if (!makeRoom(priority, waiter->count)) return false;
  std::erase(waiter->priority == Priority::kDemand ? demand_ : background_, waiter);
  waiter->buffers = take(waiter->count, waiter->owner);
  reactor_.resumeSoon(waiter->awaiter);
  return true;
}

void BufferPool::noteLeft(BufferOwner& owner) {
  if (--owner.held == 0 && demand_.empty() && background_.empty())
    std::erase_if(owners_, [](const auto& each) { return each.second.held == 0; });
  inUse_.fetch_sub(1, std::memory_order_relaxed);
}

void BufferPool::serveWaiters() {
  while (serveFirst()) {
  }
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

std::optional<ChunkBuffer> BufferPool::takeNow() {
  if (!demand_.empty() || !background_.empty()) return std::nullopt;
  const bool room = makeRoom(Priority::kBackground, 1, [this] { return stock_.reclaimIdle(); });
  if (!room) return std::nullopt;
  return std::move(take(1, {}).front());
}

Task<std::vector<ChunkBuffer>> BufferPool::acquire(Urgency& urgency, std::size_t count,
                                                   std::uint32_t rank, std::string owner) {
  auto acquiring = acquire(urgency.priority(), count, rank, std::move(owner));
  const Urgency::Watch watch(urgency, [&acquiring] { acquiring.raise(); });
  std::vector<ChunkBuffer> buffers = co_await acquiring;
  co_return std::move(buffers);
}

}  // namespace hearth
