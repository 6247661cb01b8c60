#include "fetch/rate_limiter.h"

#include <algorithm>

#include "reactor/synchronization.h"

namespace hearth {
namespace {

constexpr auto kBurst = std::chrono::milliseconds(250);
constexpr auto kStep = std::chrono::milliseconds(50);

}  // namespace

void RateLimiter::setRate(std::uint64_t bytesPerSecond) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  // What is owed is owed at the new rate.
  if (rate_ != 0 && bytesPerSecond != 0 && paidUntil_ > now) {
    const double owed =
        std::chrono::duration<double>(paidUntil_ - now).count() * static_cast<double>(rate_);
    paidUntil_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           owed / static_cast<double>(bytesPerSecond)));
  }
  rate_ = bytesPerSecond;
}

Clock::duration RateLimiter::costOf(std::uint64_t bytes) const {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
}

Clock::duration RateLimiter::trySpend(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (rate_ == 0) return Clock::duration::zero();
  if (paidUntil_ > now) return paidUntil_ - now;
  const Clock::time_point start = std::max(paidUntil_, now - kBurst);
  paidUntil_ = start + costOf(bytes);
  return Clock::duration::zero();
}

void RateLimiter::giveBack(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return;
  paidUntil_ -= costOf(bytes);
}

bool RateLimiter::limits() const {
  const std::lock_guard lock(mutex_);
  return rate_ != 0;
}

Clock::duration RateLimiter::owed() const {
  const std::lock_guard lock(mutex_);
  return std::max(paidUntil_ - Clock::now(), Clock::duration::zero());
}

void RateLimiter::charge(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return;
  paidUntil_ = std::max(paidUntil_, Clock::now() - kBurst) + costOf(bytes);
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
