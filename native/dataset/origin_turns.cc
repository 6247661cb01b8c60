#include "dataset/origin_turns.h"

#include <algorithm>

namespace hearth {

struct OriginTurns::Turn::Request {
  Request(Reactor& home, std::uint64_t wanted) : reactor(home), given(home), bytes(wanted) {}
  Reactor& reactor;
  Event given;  // on the reactor's thread
  const std::uint64_t bytes;
  bool held = false;  // under the lock
};

bool OriginTurns::Turn::held() const {
  if (request_ == nullptr) return false;
  const std::lock_guard lock(turns_->mutex_);
  return request_->held;
}

Task<void> OriginTurns::Turn::wait(Clock::time_point deadline) {
  if (held()) co_return;
  co_await request_->given.waitUntil(deadline);
}

void OriginTurns::Turn::force() {
  if (request_ == nullptr) return;
  {
    const std::lock_guard lock(turns_->mutex_);
    if (request_->held) return;
    turns_->waiting_.remove(request_);
    turns_->underWay_ += request_->bytes;
    request_->held = true;
    turns_->serve();  // those behind may fit
  }
  request_->given.set();
}

void OriginTurns::Turn::end(std::uint64_t fetched) {
  if (request_ == nullptr) return;
  const std::shared_ptr<Request> ending = std::move(request_);
  const std::lock_guard lock(turns_->mutex_);
  if (ending->held) {
    turns_->underWay_ -= ending->bytes;
    turns_->cameIn_ += fetched;
  } else {
    turns_->waiting_.remove(ending);
  }
  turns_->serve();
  if (turns_->underWay_ == 0) turns_->cameIn_ = 0;
}

bool OriginTurns::fits(const Turn::Request& request) const {
  const std::uint64_t share = std::max(least_, most_ / sharers_);
  const std::uint64_t most = std::min(share, least_ + cameIn_);
  return underWay_ == 0 || underWay_ + request.bytes <= most;
}

OriginTurns::Turn OriginTurns::ask(Reactor& reactor, std::uint64_t bytes) {
  const auto request = std::make_shared<Turn::Request>(reactor, bytes);
  const std::lock_guard lock(mutex_);
  waiting_.push_back(request);
  serve();
  return Turn(this, request);
}

OriginTurns::Turn OriginTurns::force(Reactor& reactor, std::uint64_t bytes) {
  const auto request = std::make_shared<Turn::Request>(reactor, bytes);
  const std::lock_guard lock(mutex_);
  underWay_ += bytes;
  request->held = true;
  return Turn(this, request);
}

void OriginTurns::setSharers(std::uint32_t sharers) {
  const std::lock_guard lock(mutex_);
  sharers_ = std::max(sharers, 1u);
  serve();
}

std::uint32_t OriginTurns::sharers() const {
  const std::lock_guard lock(mutex_);
  return sharers_;
}

void OriginTurns::serve() {
  while (!waiting_.empty() && fits(*waiting_.front())) {
    const std::shared_ptr<Turn::Request> next = std::move(waiting_.front());
    waiting_.pop_front();
    underWay_ += next->bytes;
    next->held = true;
    // Its reactor lives as long as it waits, and it cannot leave before we let go of the lock.
    next->reactor.post([next] { next->given.set(); });
  }
}

}  // namespace hearth
