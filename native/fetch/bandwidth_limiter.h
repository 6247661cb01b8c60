// What one node may take of something that it shares with others, in bytes a second: `total` for
// everything, `warm` for what no reader waits for. One object for all shards: who has which key is
// chance, so a part of the budget for each shard would leave some idle while others wait. What is
// asked for are chunks, a few thousand a second on the fastest links, so a lock held for some
// instructions costs nothing; without a limit it is not taken.
//
// Within a class it is first come, first served. Demand goes before warm, but for one byte in
// kDemandPerWarm + 1 while both wait, so that what readers need in the end does not stand still.
// Whoever looks serves all whose turn has come, also those of other shards, which find that out
// when they look; so none waits for a shard that is busy.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "fetch/token_bucket.h"
#include "fetch/urgency.h"
#include "reactor/reactor.h"

namespace hearth {

// Bytes a second; 0: no limit.
struct BandwidthLimits {
  std::uint64_t total = 0, warm = 0;
};

// Of one class, since the start.
struct BandwidthUse {
  std::uint64_t bytes = 0;    // that were limited
  Clock::duration waited{};   // by all that waited, added up
  std::uint64_t waiting = 0;  // now
};

class BandwidthAllowance;

// Any thread.
class BandwidthLimiter {
 public:
  // Bytes of demand for one of warm, when both wait.
  static constexpr std::uint64_t kDemandPerWarm = 15;

  explicit BandwidthLimiter(BandwidthLimits limits);
  BandwidthLimiter(const BandwidthLimiter&) = delete;
  BandwidthLimiter& operator=(const BandwidthLimiter&) = delete;

  // Whether work of that class has to ask at all.
  [[nodiscard]] bool limits(Priority priority) const {
    return limited_[static_cast<std::size_t>(priority)].load(std::memory_order_relaxed);
  }
  // Nothing is limited from now on: for the end of the engine.
  void cancel();

  // Continues on `reactor`, the caller's, when so many bytes may be moved, which they are then.
  [[nodiscard]] Task<void> pass(Reactor& reactor, std::uint64_t bytes, Priority priority);
  // The same as long as `wanted`, which is called there, now and while it waits: false, and nothing
  // is moved, when it is not.
  [[nodiscard]] Task<bool> passWhile(Reactor& reactor, std::uint64_t bytes, Priority priority,
                                     std::function<bool()> wanted);
  // The same without waiting: false when others wait, or it is not earned yet.
  [[nodiscard]] bool tryPass(std::uint64_t bytes, Priority priority);

  [[nodiscard]] const BandwidthLimits& configured() const { return configured_; }
  [[nodiscard]] BandwidthUse use(Priority priority) const;

 private:
  friend BandwidthAllowance;
  // A request, in its owner's allowance. Guarded by mutex_ from ask() until it is given or
  // withdrawn.
  struct Request {
    Priority priority = Priority::kBackground;
    std::uint64_t bytes = 0;
    std::uint64_t before = 0;  // bytes that were ever in its queue when it came
    Clock::time_point since;   // up to when its waiting is counted
    bool queued = false, given = false;
    std::list<Request*>::iterator place;
  };
  struct Queue {
    std::list<Request*> requests;
    std::uint64_t came = 0, left = 0;  // bytes
    BandwidthUse use;
  };

  [[nodiscard]] Queue& of(Priority priority) { return queues_[static_cast<std::size_t>(priority)]; }
  // Zero: it is given. Else how long to wait before the next look.
  [[nodiscard]] Clock::duration ask(Request& request, std::uint64_t bytes, Priority priority);
  void withdraw(Request& request, std::uint64_t unused);
  void moved(std::uint64_t bytes, std::uint64_t unearned, Priority priority);
  // The rest has the lock.
  void enter(Request& request, Clock::time_point now);
  void leave(Request& request, Clock::time_point now);
  void serve(Clock::time_point now);
  [[nodiscard]] Request* next(Clock::time_point now);
  void spend(std::uint64_t bytes, Priority priority, Clock::time_point now);
  [[nodiscard]] Clock::duration expectedWait(const Request& request, Clock::time_point now);

  const BandwidthLimits configured_;
  std::array<std::atomic<bool>, 2> limited_;
  mutable std::mutex mutex_;
  TokenBucket total_, warm_;
  std::array<Queue, 2> queues_;
  std::uint64_t demandServed_ = 0;  // while warm waited, since it had a turn
};

// What one piece of work may move: earned before it is known whether it is needed, and given back
// when it was not. Used on one shard.
class BandwidthAllowance {
 public:
  // `limiter` must remain live while this object is used.
  explicit BandwidthAllowance(BandwidthLimiter& limiter) : limiter_(limiter) {}
  ~BandwidthAllowance() { leave(); }
  BandwidthAllowance(const BandwidthAllowance&) = delete;
  BandwidthAllowance& operator=(const BandwidthAllowance&) = delete;

  // Work of that class may go on: nothing limits it, or something is earned.
  [[nodiscard]] bool given(Priority priority) const {
    return !limiter_.limits(priority) || earned_ != 0;
  }
  // Continues on `reactor`, the caller's, when `bytes` are earned, nothing limits it any more, or
  // at `until`; then its turn may come meanwhile, and it asks again for as many. When `urgency` is
  // raised it waits with demand.
  [[nodiscard]] Task<void> earn(Reactor& reactor, std::uint64_t bytes, Urgency& urgency,
                                Clock::time_point until);
  // So many were moved; those that were not earned are owed.
  void use(std::uint64_t bytes, Priority priority);
  // It does not wait any more, and does not need what is left.
  void leave();

 private:
  BandwidthLimiter& limiter_;
  BandwidthLimiter::Request request_;
  bool asking_ = false;       // request_ is the limiter's, too
  std::uint64_t earned_ = 0;  // and not used
};

}  // namespace hearth
