// A bucket of bytes a second, with a burst of a quarter of a second. A request that may pass passes
// whole, and the requests behind it wait until its bytes are earned; so a request of any size
// passes at any rate. Pure: not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/clock.h"

namespace hearth {

class TokenBucket {
 public:
  static constexpr Clock::duration kBurst = std::chrono::milliseconds(250);
  // Bounds the debt at low rates, so that times stay far within the range of a clock.
  static constexpr Clock::duration kMaxDebt = std::chrono::hours(24 * 365);

  // 0: no limit.
  explicit TokenBucket(std::uint64_t bytesPerSecond) : rate_(bytesPerSecond) {}

  [[nodiscard]] std::uint64_t rate() const { return rate_; }
  [[nodiscard]] bool limits() const { return rate_ != 0; }
  // A debt is owed at the new rate.
  void setRate(std::uint64_t bytesPerSecond, Clock::time_point now) {
    if (rate_ != 0 && bytesPerSecond != 0 && paidUntil_ > now) {
      const double owed = std::chrono::duration<double>(paidUntil_ - now).count();
      paidUntil_ = now + durationOf(owed * static_cast<double>(rate_), bytesPerSecond);
    }
    rate_ = bytesPerSecond;
  }

  // Time until the next request may pass; zero: now.
  [[nodiscard]] Clock::duration wait(Clock::time_point now) const {
    if (rate_ == 0) return Clock::duration::zero();
    return std::max(paidUntil_ - now, Clock::duration::zero());
  }
  void spend(std::uint64_t bytes, Clock::time_point now) {
    if (rate_ == 0) return;
    paidUntil_ = std::min(std::max(paidUntil_, now - kBurst) + timeFor(bytes), now + kMaxDebt);
  }
  // Gives back bytes that were spent and not used.
  void giveBack(std::uint64_t bytes) {
    if (rate_ != 0) paidUntil_ -= timeFor(bytes);
  }
  // Time for `bytes` at the rate, which is not 0; kMaxDebt at most.
  [[nodiscard]] Clock::duration timeFor(std::uint64_t bytes) const {
    return durationOf(static_cast<double>(bytes), rate_);
  }

 private:
  // Rounded up, so that many small ones are not free at a high rate.
  static Clock::duration durationOf(double bytes, std::uint64_t rate) {
    const double nanoseconds = std::ceil(bytes * 1e9 / static_cast<double>(rate));
    if (nanoseconds >= static_cast<double>(kMaxDebt.count())) return kMaxDebt;
    return Clock::duration(static_cast<Clock::rep>(nanoseconds));
  }

  std::uint64_t rate_;
  Clock::time_point paidUntil_{};  // when all that was spent will have been earned
};

}  // namespace hearth
