// A token bucket that shards share: bytes a second, burst of a quarter of a second but at least one
// run. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "reactor/reactor.h"

namespace hearth {

class RateLimiter {
 public:
  // 0: no limit.
  explicit RateLimiter(std::uint64_t bytesPerSecond) : rate_(bytesPerSecond) {}

  void setRate(std::uint64_t bytesPerSecond);
  // Nobody waits any more, now or later; what they wanted to spend for is no longer wanted.
  void cancel() { cancelled_.store(true); }
  [[nodiscard]] bool cancelled() const { return cancelled_.load(); }
  // Continues on `reactor`, the caller's, when `bytes` may be spent. Debt is allowed: a request
  // larger than the burst passes at once and the next ones wait for it. Those who wait have
  // reserved nothing, so a new rate holds for them at once.
  [[nodiscard]] Task<void> spend(Reactor& reactor, std::uint64_t bytes);
  // They were spent and not used.
  void giveBack(std::uint64_t bytes);
  [[nodiscard]] bool limits() const;

 private:
  // How long to wait before the next try; zero: they are spent.
  Clock::duration trySpend(std::uint64_t bytes);

  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::uint64_t rate_;
  Clock::time_point paidUntil_{};  // when all that was spent will have been earned
};

// What somebody may spend of a rate: waited for before it is known whether it is needed, and given
// back when it was not. On the limiter's shard only, and not for longer than the limiter lives.
class RateAllowance {
 public:
  explicit RateAllowance(RateLimiter* rate)
      : rate_(rate), given_(rate == nullptr || !rate->limits()) {}
  ~RateAllowance() {
    if (unused_ != 0) rate_->giveBack(unused_);
  }
  RateAllowance(const RateAllowance&) = delete;
  RateAllowance& operator=(const RateAllowance&) = delete;

  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] Task<void> spend(Reactor& reactor, std::uint64_t bytes) {
    Task<void> spending = rate_->spend(reactor, bytes);
    co_await spending;
    given_ = true;
    unused_ = bytes;
  }
  void use() { unused_ = 0; }

 private:
  RateLimiter* rate_;
  bool given_;
  std::uint64_t unused_ = 0;
};

}  // namespace hearth
