#include "fetch/rate_limiter.h"

#include <algorithm>

#include "reactor/synchronization.h"

namespace hearth {
namespace {

constexpr auto kStep = std::chrono::milliseconds(50);

}  // namespace

void RateLimiter::setRate(std::uint64_t bytesPerSecond) {
  const std::lock_guard lock(mutex_);
  bucket_.setRate(bytesPerSecond, Clock::now());
}

Clock::duration RateLimiter::trySpend(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const Clock::duration wait = bucket_.wait(now);
  if (wait == Clock::duration::zero()) bucket_.spend(bytes, now);
  return wait;
}

void RateLimiter::giveBack(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bucket_.giveBack(bytes);
}

bool RateLimiter::limits() const {
  const std::lock_guard lock(mutex_);
  return bucket_.limits();
}

Clock::duration RateLimiter::owed() const {
  const std::lock_guard lock(mutex_);
  return bucket_.wait(Clock::now());
}

void RateLimiter::charge(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bucket_.spend(bytes, Clock::now());
}

Task<bool> RateLimiter::spend(Reactor& reactor, std::uint64_t bytes, Urgency& urgency) {
  Event raised(reactor);
  const Urgency::Watch watch(urgency, [&raised] { raised.set(); });
  while (!cancelled_.load() && !urgency.demand()) {
    const Clock::duration wait = trySpend(bytes);
    if (wait == Clock::duration::zero()) co_return true;
    // In short steps, so that neither a cancelled job nor a new rate keeps anyone waiting.
    co_await raised.waitUntil(Clock::now() + std::min<Clock::duration>(wait, kStep));
  }
  co_return false;
}

Task<void> RateLimiter::spend(Reactor& reactor, std::uint64_t bytes) {
  Urgency background(Priority::kBackground);
  [[maybe_unused]] const bool spent = co_await spend(reactor, bytes, background);
}

}  // namespace hearth
