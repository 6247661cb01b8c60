// The rate of one job, which shards share: readers do not wait for it, what they use is owed. Of
// the whole node: bandwidth_limiter.h. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "fetch/token_bucket.h"
#include "fetch/urgency.h"
#include "reactor/reactor.h"

namespace hearth {

class RateLimiter {
 public:
  // 0: no limit.
  explicit RateLimiter(std::uint64_t bytesPerSecond) : bucket_(bytesPerSecond) {}

  void setRate(std::uint64_t bytesPerSecond);
  // No caller waits any more, now or later; what they wanted to spend for is no longer wanted.
  void cancel() { cancelled_.store(true); }
  [[nodiscard]] bool cancelled() const { return cancelled_.load(); }
  // Continues on `reactor`, the caller's, when `bytes` are spent. Debt is allowed: a request
  // larger than the burst passes at once and the next ones wait for it. Those who wait have
  // reserved nothing, so a new rate holds for them at once. False, and nothing is spent, when a
  // reader waits for the bytes, from the beginning or meanwhile, or the limiter was cancelled.
  [[nodiscard]] Task<bool> spend(Reactor& reactor, std::uint64_t bytes, Urgency& urgency);
  // The same for work that no reader joins.
  [[nodiscard]] Task<void> spend(Reactor& reactor, std::uint64_t bytes);
  // They are used without having been waited for: the next ones wait longer.
  void charge(std::uint64_t bytes);
  // They were spent and not used.
  void giveBack(std::uint64_t bytes);
  [[nodiscard]] bool limits() const;
  // How long it takes until all that was spent is earned.
  [[nodiscard]] Clock::duration owed() const;

 private:
  // How long to wait before the next try; zero: they are spent.
  Clock::duration trySpend(std::uint64_t bytes);

  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  TokenBucket bucket_;
};

// What a caller may spend of a rate: waited for before it is known whether it is needed, and given
// back when it was not. Readers do not wait; what they use is owed. On the limiter's shard only,
// and not for longer than the limiter lives.
class RateAllowance {
 public:
  // `rate` must remain live while this object is used. Null: no limit.
  explicit RateAllowance(RateLimiter* rate)
      : rate_(rate), given_(rate == nullptr || !rate->limits()) {}
  ~RateAllowance() {
    if (unused_ != 0) rate_->giveBack(unused_);
  }
  RateAllowance(const RateAllowance&) = delete;
  RateAllowance& operator=(const RateAllowance&) = delete;

  [[nodiscard]] bool given() const { return given_; }
  [[nodiscard]] Task<void> spend(Reactor& reactor, std::uint64_t bytes, Urgency& urgency) {
    const bool spent = co_await rate_->spend(reactor, bytes, urgency);
    if (spent) unused_ = bytes;
    given_ = true;
  }
  // `bytes` are used: all that it is for, however often it says so.
  void use(std::uint64_t bytes) {
    if (used_) return;
    if (unused_ == 0 && rate_ != nullptr) rate_->charge(bytes);
    used_ = true;
    unused_ = 0;
  }

 private:
  RateLimiter* rate_;
  bool given_;
  bool used_ = false;
  std::uint64_t unused_ = 0;
};

}  // namespace hearth
