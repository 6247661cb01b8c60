#include "fetch/bandwidth_limiter.h"

#include <algorithm>
#include <utility>

#include "reactor/synchronization.h"

namespace hearth {
namespace {

// How often a waiter looks again: others may have left, it may be demand now, or the engine may
// end.
constexpr Clock::duration kLongestStep = std::chrono::milliseconds(50);
constexpr Clock::duration kShortestStep = std::chrono::microseconds(200);

}  // namespace

BandwidthLimiter::BandwidthLimiter(BandwidthLimits limits)
    : configured_(limits),
      limited_{limits.total != 0, limits.total != 0 || limits.warm != 0},
      total_(limits.total),
      warm_(limits.warm) {
  static_assert(static_cast<int>(Priority::kDemand) == 0 &&
                static_cast<int>(Priority::kBackground) == 1);
}

void BandwidthLimiter::cancel() {
  for (std::atomic<bool>& limited : limited_) limited.store(false, std::memory_order_relaxed);
}

BandwidthUse BandwidthLimiter::use(Priority priority) const {
  const std::lock_guard lock(mutex_);
  const Queue& queue = queues_[static_cast<std::size_t>(priority)];
  BandwidthUse use = queue.use;
  use.waiting = queue.requests.size();
  return use;
}

Clock::duration BandwidthLimiter::ask(Request& request, std::uint64_t bytes, Priority priority) {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (request.queued && request.priority != priority) leave(request, now);
  if (!request.queued && !request.given) {
    request.priority = priority;
    request.bytes = bytes;
    enter(request, now);
  }
  serve(now);
  if (request.given) return Clock::duration::zero();
  of(request.priority).use.waited += now - request.since;
  request.since = now;
  return std::clamp(expectedWait(request, now), kShortestStep, kLongestStep);
}

void BandwidthLimiter::enter(Request& request, Clock::time_point now) {
  Queue& queue = of(request.priority);
  request.before = queue.came;
  queue.came += request.bytes;
  request.since = now;
  request.queued = true;
  request.place = queue.requests.insert(queue.requests.end(), &request);
}

void BandwidthLimiter::leave(Request& request, Clock::time_point now) {
  Queue& queue = of(request.priority);
  queue.requests.erase(request.place);
  queue.left += request.bytes;
  queue.use.waited += now - request.since;
  request.queued = false;
}

void BandwidthLimiter::serve(Clock::time_point now) {
  while (total_.wait(now) == Clock::duration::zero()) {
    Request* const request = next(now);
    if (request == nullptr) return;
    leave(*request, now);
    request->given = true;
    spend(request->bytes, request->priority, now);
    const bool warmWaits = !of(Priority::kBackground).requests.empty();
    const bool demand = request->priority == Priority::kDemand;
    demandServed_ = demand && warmWaits ? demandServed_ + request->bytes : 0;
  }
}

BandwidthLimiter::Request* BandwidthLimiter::next(Clock::time_point now) {
  const std::list<Request*>& demand = of(Priority::kDemand).requests;
  const std::list<Request*>& warm = of(Priority::kBackground).requests;
  const bool warmMay = !warm.empty() && warm_.wait(now) == Clock::duration::zero();
  if (demand.empty()) return warmMay ? warm.front() : nullptr;
  const bool warmsTurn = warmMay && demandServed_ / kDemandPerWarm >= warm.front()->bytes;
  return warmsTurn ? warm.front() : demand.front();
}

void BandwidthLimiter::spend(std::uint64_t bytes, Priority priority, Clock::time_point now) {
  total_.spend(bytes, now);
  if (priority == Priority::kBackground) warm_.spend(bytes, now);
}

// Includes the time of the requests ahead. A request that leaves without a turn makes it shorter.
Clock::duration BandwidthLimiter::expectedWait(const Request& request, Clock::time_point now) {
  const Queue& queue = of(request.priority);
  const bool background = request.priority == Priority::kBackground;
  std::uint64_t ahead = request.before - std::min(request.before, queue.left);
  Clock::duration wait{};
  if (background && warm_.limits()) wait = warm_.wait(now) + warm_.timeFor(ahead);
  if (background) ahead += of(Priority::kDemand).came - of(Priority::kDemand).left;
  if (total_.limits()) wait = std::max(wait, total_.wait(now) + total_.timeFor(ahead));
  return wait;
}

void BandwidthLimiter::withdraw(Request& request, std::uint64_t unused) {
  const std::lock_guard lock(mutex_);
  if (request.queued) leave(request, Clock::now());
  // The request's turn may have come since its owner looked.
  if (request.given) unused += request.bytes;
  request.given = false;
  total_.giveBack(unused);
  if (request.priority == Priority::kBackground) warm_.giveBack(unused);
}

void BandwidthLimiter::moved(std::uint64_t bytes, std::uint64_t unearned, Priority priority) {
  const std::lock_guard lock(mutex_);
  of(priority).use.bytes += bytes;
  if (unearned != 0) spend(unearned, priority, Clock::now());
}

bool BandwidthLimiter::tryPass(std::uint64_t bytes, Priority priority) {
  if (!limits(priority)) return true;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  serve(now);
  const bool demand = priority == Priority::kDemand;
  const bool others = !of(Priority::kDemand).requests.empty() ||
                      (!demand && !of(Priority::kBackground).requests.empty());
  const bool earned = total_.wait(now) == Clock::duration::zero() &&
                      (demand || warm_.wait(now) == Clock::duration::zero());
  if (others || !earned) return false;
  spend(bytes, priority, now);
  of(priority).use.bytes += bytes;
  return true;
}

Task<void> BandwidthLimiter::pass(Reactor& reactor, std::uint64_t bytes, Priority priority) {
  Urgency urgency(priority);
  BandwidthAllowance allowance(*this);
  co_await allowance.earn(reactor, bytes, urgency, Clock::time_point::max());
  allowance.use(bytes, priority);
}

Task<bool> BandwidthLimiter::passWhile(Reactor& reactor, std::uint64_t bytes, Priority priority,
                                       std::function<bool()> wanted) {
  Urgency urgency(priority);
  BandwidthAllowance allowance(*this);
  while (wanted()) {
    if (allowance.given(priority)) {
      allowance.use(bytes, priority);
      co_return true;
    }
    co_await allowance.earn(reactor, bytes, urgency, Clock::now() + kLongestStep);
  }
  co_return false;
}

Task<void> BandwidthAllowance::earn(Reactor& reactor, std::uint64_t bytes, Urgency& urgency,
                                    Clock::time_point until) {
  Event raised(reactor);
  const Urgency::Watch watch(urgency, [&raised] { raised.set(); });
  while (!given(urgency.priority())) {
    asking_ = true;
    const Clock::duration wait =
        limiter_.ask(request_, std::max<std::uint64_t>(bytes, 1), urgency.priority());
    if (wait == Clock::duration::zero()) {
      asking_ = false;
      request_.given = false;
      earned_ = request_.bytes;
      co_return;
    }
    const Clock::time_point now = Clock::now();
    if (now >= until) co_return;
    co_await raised.waitUntil(std::min(now + wait, until));
    raised.reset();
  }
}

void BandwidthAllowance::use(std::uint64_t bytes, Priority priority) {
  const std::uint64_t earned = std::min(earned_, bytes);
  earned_ -= earned;
  if (limiter_.limits(priority)) limiter_.moved(bytes, bytes - earned, priority);
}

void BandwidthAllowance::leave() {
  if (!std::exchange(asking_, false) && earned_ == 0) return;
  limiter_.withdraw(request_, std::exchange(earned_, 0));
}

}  // namespace hearth
