#include "fuse/parked_reads.h"

#include <algorithm>

namespace hearth {

ParkedReads::Parked ParkedReads::park(std::uint64_t unique, const Ask& ask) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Parked::kClosed;
  if (const auto early = std::find(early_.begin(), early_.end(), unique); early != early_.end()) {
    *early = 0;
    return Parked::kInterrupted;
  }
  if (queued_.empty() && asked_.size() < limit_) {
    parked_.insert(unique);
    asked_.insert(unique);
    return Parked::kAsk;
  }
  if (queued_.size() >= limit_ * kQueuedPerAsked) return Parked::kTooMany;
  parked_.insert(unique);
  queued_.emplace(unique, ask);
  return Parked::kQueued;
}

void ParkedReads::askQueued() {
  std::unique_lock lock(mutex_);
  // A thread that asks already looks again afterwards: no read waits in vain, and answers that come
  // at once do not stack up.
  while (!asking_ && !queued_.empty() && asked_.size() < limit_) {
    auto next = queued_.extract(queued_.begin());
    asked_.insert(next.key());
    asking_ = true;
    lock.unlock();
    next.mapped()();
    next = {};
    lock.lock();
    asking_ = false;
  }
}

bool ParkedReads::take(std::uint64_t unique) {
  const std::lock_guard lock(mutex_);
  asked_.erase(unique);
  if (parked_.erase(unique) == 0) return false;
  ++answering_;
  return true;
}

void ParkedReads::answered() {
  const std::lock_guard lock(mutex_);
  --answering_;
  changed_.notify_all();
}

bool ParkedReads::interrupt(std::uint64_t unique) {
  decltype(queued_)::node_type dropped;  // outside our lock: it may be the last to hold its file
  const std::lock_guard lock(mutex_);
  if (parked_.erase(unique) != 0) {
    dropped = queued_.extract(unique);
    ++answering_;
    return true;
  }
  early_[nextEarly_] = unique;
  nextEarly_ = (nextEarly_ + 1) % early_.size();
  return false;
}

std::vector<std::uint64_t> ParkedReads::close(std::chrono::milliseconds limit) {
  decltype(queued_) dropped;  // outside our lock
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.wait_for(lock, limit, [this] { return parked_.empty(); });
  std::vector<std::uint64_t> left(parked_.begin(), parked_.end());
  parked_.clear();
  dropped.swap(queued_);
  changed_.wait(lock, [this] { return answering_ == 0; });
  return left;
}

bool ParkedReads::full() const {
  const std::lock_guard lock(mutex_);
  return asked_.size() >= limit_;
}

bool ParkedReads::waits(std::uint64_t unique) const {
  const std::lock_guard lock(mutex_);
  return parked_.contains(unique);
}

std::size_t ParkedReads::size() const {
  const std::lock_guard lock(mutex_);
  return parked_.size();
}

}  // namespace hearth
