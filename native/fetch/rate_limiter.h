// The rate of one job, which shards share. Readers do not wait for it, but later background work
// waits for the bytes that they used. bandwidth_limiter.h limits the whole node. Thread-safe.
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
  // Ends all waits, now and later: the job's bytes are no longer wanted.
  void cancel() { cancelled_.store(true); }
  [[nodiscard]] bool cancelled() const { return cancelled_.load(); }
  // Waits on `reactor`, the caller's, until `bytes` are spent. Debt is allowed: a request larger
  // than the burst passes at once, and the next ones wait for it. Waiters reserve nothing, so a new
  // rate holds for them at once. False, and nothing is spent: a reader waits for the bytes, now or
  // meanwhile, or the limiter was cancelled.
  [[nodiscard]] Task<bool> spend(Reactor& reactor, std::uint64_t bytes, Urgency& urgency);
  // The same for work that no reader joins.
  [[nodiscard]] Task<void> spend(Reactor& reactor, std::uint64_t bytes);
  // Spends `bytes` without waiting: the next callers wait longer.
  void charge(std::uint64_t bytes);
  // Gives back `bytes` that were spent and not used.
  void giveBack(std::uint64_t bytes);
  [[nodiscard]] bool limits() const;
  // Time until all spent bytes are earned.
  [[nodiscard]] Clock::duration owed() const;

 private:
  // Zero: the bytes are spent. Else the time to wait before the next try.
  Clock::duration trySpend(std::uint64_t bytes);

  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  TokenBucket bucket_;
};

// The bytes of a rate that one run may spend. The run waits for them before it knows whether it
// needs them, and gives unused ones back. Readers do not wait; later work waits for what they used.
// On one shard, and not for longer than the limiter lives.
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
  // Counts `bytes`, which are all that the allowance is for; further calls count nothing.
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
