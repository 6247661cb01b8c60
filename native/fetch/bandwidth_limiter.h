// Limits how much one node takes of a resource that it shares with others, in bytes a second:
// `total` for everything, `warm` for work that no reader waits for. All shards share one object,
// because keys are spread over shards by chance: with a budget for each shard some would idle while
// others wait. Callers ask for whole chunks, a few thousand a second on the fastest links, so a
// short lock costs nothing; without a limit nobody takes the lock.
//
// Each class is served first come, first served. Demand goes before warm work, except for one byte
// in kDemandPerWarm + 1 while both wait, so that warm work never stops. A caller that looks serves
// every request whose turn has come, also requests of other shards, which find out when they look;
// so no request waits for a busy shard.
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

// Use by one class since the start.
struct BandwidthUse {
  std::uint64_t bytes = 0;    // moved under a limit
  Clock::duration waited{};   // sum over all requests
  std::uint64_t waiting = 0;  // requests that wait now
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

  // True: work of that class has to ask.
  [[nodiscard]] bool limits(Priority priority) const {
    return limited_[static_cast<std::size_t>(priority)].load(std::memory_order_relaxed);
  }
  // Lifts all limits, for the end of the engine.
  void cancel();

  // Waits until `bytes` may be moved, and counts them as moved. `reactor` is the caller's.
  [[nodiscard]] Task<void> pass(Reactor& reactor, std::uint64_t bytes, Priority priority);
  // As pass() while `wanted`, which it calls on `reactor` before and during the wait. False: the
  // bytes are no longer wanted, and none were counted.
  [[nodiscard]] Task<bool> passWhile(Reactor& reactor, std::uint64_t bytes, Priority priority,
                                     std::function<bool()> wanted);
  // As pass() without waiting. False: other requests wait, or the bytes are not earned yet.
  [[nodiscard]] bool tryPass(std::uint64_t bytes, Priority priority);

  [[nodiscard]] const BandwidthLimits& configured() const { return configured_; }
  [[nodiscard]] BandwidthUse use(Priority priority) const;

 private:
  friend BandwidthAllowance;
  // Lives in its owner's allowance. mutex_ guards it from ask() until it is given or withdrawn.
  struct Request {
    Priority priority = Priority::kBackground;
    std::uint64_t bytes = 0;
    std::uint64_t before = 0;  // bytes that entered its queue before it
    Clock::time_point since;   // its wait is counted up to here
    bool queued = false, given = false;
    std::list<Request*>::iterator place;
  };
  struct Queue {
    std::list<Request*> requests;
    std::uint64_t came = 0, left = 0;  // bytes
    BandwidthUse use;
  };

  [[nodiscard]] Queue& of(Priority priority) { return queues_[static_cast<std::size_t>(priority)]; }
  // Zero: the request is given. Else the time to wait before asking again.
  [[nodiscard]] Clock::duration ask(Request& request, std::uint64_t bytes, Priority priority);
  void withdraw(Request& request, std::uint64_t unused);
  void moved(std::uint64_t bytes, std::uint64_t unearned, Priority priority);
  // The functions below need mutex_.
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
  std::uint64_t demandServed_ = 0;  // bytes since warm work that waits had a turn
};

// The bytes that one piece of work may move. The work earns them before it knows whether it needs
// them, and gives unused ones back. Used on one shard.
class BandwidthAllowance {
 public:
  // `limiter` must remain live while this object is used.
  explicit BandwidthAllowance(BandwidthLimiter& limiter) : limiter_(limiter) {}
  ~BandwidthAllowance() { leave(); }
  BandwidthAllowance(const BandwidthAllowance&) = delete;
  BandwidthAllowance& operator=(const BandwidthAllowance&) = delete;

  // True: work of that class may go on, without a limit or with earned bytes.
  [[nodiscard]] bool given(Priority priority) const {
    return !limiter_.limits(priority) || earned_ != 0;
  }
  // Waits until `bytes` are earned, the limit is lifted, or `until`; after `until` the request
  // stays queued, and the caller asks again for as many. A raised `urgency` moves the request to
  // demand. `reactor` is the caller's.
  [[nodiscard]] Task<void> earn(Reactor& reactor, std::uint64_t bytes, Urgency& urgency,
                                Clock::time_point until);
  // Counts `bytes` as moved. Later requests wait for those that were not earned.
  void use(std::uint64_t bytes, Priority priority);
  // Withdraws the request and gives back the bytes that are left.
  void leave();

 private:
  BandwidthLimiter& limiter_;
  BandwidthLimiter::Request request_;
  bool asking_ = false;       // the limiter has request_, too
  std::uint64_t earned_ = 0;  // and not used
};

}  // namespace hearth
