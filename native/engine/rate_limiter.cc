#include "engine/rate_limiter.h"

#include <algorithm>

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

Clock::duration RateLimiter::trySpend(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (rate_ == 0) return Clock::duration::zero();
  if (paidUntil_ > now) return paidUntil_ - now;
  const Clock::time_point start = std::max(paidUntil_, now - kBurst);
  paidUntil_ = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           static_cast<double>(bytes) / static_cast<double>(rate_)));
  return Clock::duration::zero();
}

void RateLimiter::giveBack(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return;
  paidUntil_ -= std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
}

bool RateLimiter::limits() const {
  const std::lock_guard lock(mutex_);
  return rate_ != 0;
}

Task<void> RateLimiter::spend(Reactor& reactor, std::uint64_t bytes) {
  while (!cancelled_.load()) {
    const Clock::duration wait = trySpend(bytes);
    if (wait == Clock::duration::zero()) co_return;
    // In short steps, so that neither a cancelled job nor a new rate keeps anyone waiting.
    co_await reactor.sleep(std::min<Clock::duration>(wait, kStep));
  }
}

}  // namespace hearth
