#include "engine/rate_limiter.h"

#include <algorithm>

namespace hearth {
namespace {

constexpr auto kBurst = std::chrono::milliseconds(250);

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

Clock::duration RateLimiter::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (rate_ == 0) return Clock::duration::zero();
  const Clock::time_point now = Clock::now();
  const Clock::time_point start = std::max(paidUntil_, now - kBurst);
  paidUntil_ = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           static_cast<double>(bytes) / static_cast<double>(rate_)));
  return start > now ? start - now : Clock::duration::zero();
}

Task<void> RateLimiter::spend(Reactor& reactor, std::uint64_t bytes) {
  const Clock::duration delay = reserve(bytes);
  if (delay > Clock::duration::zero()) co_await reactor.sleep(delay);
}

}  // namespace hearth
