// Measurements of one host (scheme, name and port): they tell which transfer is a straggler, how
// many bytes the client may ask for twice, and how many requests it sends at a time. Private to
// this room. Reactor's thread only. All transfers are hedged by one rule, waited for or not.
//
// Source: J. Dean, L. A. Barroso, "The Tail at Scale" (CACM 2013): a hedged request is sent when
// the first has been outstanding for longer than a high percentile of the expected time, which
// bounds what hedging costs; and Amazon's guidelines for S3: retry what is slow on a connection of
// its own, after 2 s where nothing is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "origin/fair_permits.h"
#include "origin/hedge_budget.h"
#include "origin/origin_client.h"
#include "origin/parallelism_climb.h"
#include "origin/sample_window.h"

namespace hearth {

class OriginHost {
 public:
  // `reactor` must remain live while this object is used.
  OriginHost(Reactor& reactor, const OriginOptions& options);

  // Awaitable: one of the requests that it may be asked at a time, until release(). Owners take
  // turns as in FairPermits. `owner` stays until then.
  [[nodiscard]] auto acquire(const std::string& owner) { return permits_.acquire(owner); }
  // The caller uses the permit it acquired.
  void begun(Clock::time_point now) { climb_.saturated(permits_.full(), now); }
  void release(const std::string& owner, Clock::time_point now);
  [[nodiscard]] bool wantedByOther(const std::string& owner) const {
    return permits_.wantedByOther(owner);
  }
  [[nodiscard]] std::size_t parallelism() const { return climb_.parallelism(); }

  // The first byte of an answer came after `time`; or none had come by then, and it was broken off.
  void firstByte(Clock::duration time);
  // A transfer that is no hedge has ended: `bytes` of the object came, the first of them `time`
  // before.
  void transferred(std::uint64_t bytes, Clock::duration time);
  // Bytes of an object came.
  void came(std::uint64_t bytes, Clock::time_point now);
  // It answered a request that began at `began` that it is asked too often (429, 503).
  void throttled(Clock::time_point began, Clock::time_point now);
  // It broke off the connection of such a request.
  void reset(Clock::time_point began, Clock::time_point now);

  // A transfer that waits longer for its first byte is a straggler.
  [[nodiscard]] Clock::duration firstByteBound() const;
  // A transfer that is slower for options.slowFor is a straggler; bytes a second. Nothing before
  // enough transfers were measured.
  [[nodiscard]] std::optional<double> stragglerRate() const;
  // Spends `bytes` on a second request if the budget allows. Not while the host throttles.
  [[nodiscard]] bool tryHedge(std::uint64_t bytes, Clock::time_point now);

 private:
  const HedgingOptions options_;
  ParallelismClimb climb_;
  FairPermits permits_;      // as many as climb_ says
  SampleWindow firstBytes_;  // seconds
  SampleWindow rates_;       // bytes a second
  HedgeBudget budget_;
  Clock::time_point throttledUntil_ = Clock::time_point::min();
};

}  // namespace hearth
