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

Clock::time_point RateLimiter::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (rate_ == 0) return now;
  const Clock::time_point start = std::max(paidUntil_, now - kBurst);
  paidUntil_ = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           static_cast<double>(bytes) / static_cast<double>(rate_)));
  return start;
}

Task<void> RateLimiter::spend(Reactor& reactor, std::uint64_t bytes) {
  const Clock::time_point start = reserve(bytes);
  // In short steps, so that a cancelled job does not keep anyone waiting.
  for (Clock::time_point now = Clock::now(); now < start && !cancelled_.load();
       now = Clock::now()) {
    co_await reactor.sleep(std::min<Clock::duration>(start - now, kStep));
  }
}

}  // namespace hearth
