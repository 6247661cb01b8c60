#include "fuse/parked_reads.h"

#include <algorithm>

namespace hearth {

ParkedReads::Parked ParkedReads::park(std::uint64_t unique) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Parked::kClosed;
  if (const auto early = std::find(early_.begin(), early_.end(), unique); early != early_.end()) {
    *early = 0;
    return Parked::kInterrupted;
  }
  parked_.insert(unique);
  asked_.insert(unique);
  return Parked::kYes;
}

bool ParkedReads::take(std::uint64_t unique) {
  const std::lock_guard lock(mutex_);
  if (asked_.erase(unique) != 0) changed_.notify_all();
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
  const std::lock_guard lock(mutex_);
  if (parked_.erase(unique) != 0) {
    ++answering_;
    return true;
  }
  early_[nextEarly_] = unique;
  nextEarly_ = (nextEarly_ + 1) % early_.size();
  return false;
}

void ParkedReads::waitForRoom() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || asked_.size() < limit_; });
}

std::vector<std::uint64_t> ParkedReads::close(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, limit, [this] { return parked_.empty(); });
  std::vector<std::uint64_t> left(parked_.begin(), parked_.end());
  parked_.clear();
  changed_.wait(lock, [this] { return answering_ == 0; });
  return left;
}

bool ParkedReads::full() const {
  const std::lock_guard lock(mutex_);
  return asked_.size() >= limit_;
}

std::size_t ParkedReads::size() const {
  const std::lock_guard lock(mutex_);
  return parked_.size();
}

}  // namespace hearth
