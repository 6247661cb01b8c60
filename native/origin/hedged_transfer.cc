#include "origin/hedged_transfer.h"

#include <algorithm>

#include "base/clock.h"

namespace hearth {
namespace {

// A straggler that may not be asked for again now, as others are or the budget is spent, is looked
// at again after that.
constexpr auto kLookAgain = std::chrono::milliseconds(250);
constexpr int kTooManyRequests = 429;
constexpr int kServiceUnavailable = 503;

}  // namespace

HedgedTransfer::HedgedTransfer(HttpContext& context, OriginHosts& hosts,
                               std::shared_ptr<OriginHost> host, HttpRequest request,
                               bool leaveStraggler, PieceSink& sink)
    : context_(context),
      hosts_(hosts),
      host_(std::move(host)),
      request_(counted(std::move(request))),
      leaveStraggler_(leaveStraggler),
      sink_(sink),
      changed_(context.reactor),
      sides_(context.reactor),
      first_(context, request_, sink),
      startedLateness_(context.reactor.lateness()) {}

// Its bytes are the host's goodput.
HttpRequest HedgedTransfer::counted(HttpRequest request) {
  request.came = [this](std::uint64_t bytes) { host_->came(bytes, Clock::now()); };
  return request;
}

void HedgedTransfer::cancel() {
  cancelled_ = true;
  first_.exchange.cancel();
  if (hedge_) hedge_->exchange.cancel();
}

Task<void> HedgedTransfer::follow(HedgedTransfer& transfer, Side& side) {
  side.outcome = co_await side.exchange.run();
  transfer.changed_.set();
}

Task<HttpOutcome> HedgedTransfer::run() {
  ++context_.statistics.requests;
  sides_.spawn(follow(*this, first_));
  Side* over = nullptr;
  while ((over = winner()) == nullptr) {
    if (!hedge_ && !left_ && !cancelled_ && straggling()) {
      // The caller of a late sink asks for the rest by requests that have hedges.
      if (sink_.late()) {
        first_.exchange.giveUpSlow();
      } else {
        tryHedge();
      }
    }
    // With a hedge only that counts which of the two ends, or which of them leads.
    co_await changed_.waitUntil(hedge_ ? Clock::time_point::max() : lookAt_);
    changed_.reset();
  }
  if (over != &first_) first_.exchange.cancel();
  if (hedge_ && over != &*hedge_) hedge_->exchange.cancel();
  co_await sides_.close();
  measure();
  if (hedge_) hosts_.endHedge();
  if (over != &first_) ++context_.statistics.hedgesWon;
  co_return std::move(*over->outcome);
}

HedgedTransfer::Side* HedgedTransfer::winner() {
  if (!hedge_) return first_.outcome ? &first_ : nullptr;
  if (hedge_->exchange.leads()) {
    return hedge_->outcome ? &*hedge_ : nullptr;
  }
  if (first_.outcome) {
    // A passing failure of the first transfer need not be one of the hedge, which goes on. The
    // server's other statements on the object, the deadline, and waiting callers hold for both.
    const bool mayPass = first_.outcome->status.code() == ErrorCode::kUnavailable;
    return mayPass && !hedge_->outcome ? nullptr : &first_;
  }
  // A hedge that is redirected before the first has an answer is an answer to both.
  const bool redirected = hedge_->outcome && !hedge_->outcome->redirect.empty();
  return redirected && !first_.exchange.answeredAt() ? &*hedge_ : nullptr;
}

Clock::duration HedgedTransfer::attentive(Clock::time_point then, Clock::duration lateness) const {
  return Clock::now() - then - (context_.reactor.lateness() - lateness);
}

bool HedgedTransfer::straggling() {
  const Clock::time_point now = Clock::now();
  if (now < lookAt_) return false;
  if (!first_.exchange.answeredAt()) {
    const Clock::duration left = host_->firstByteBound() - attentive(started_, startedLateness_);
    const bool late = left <= Clock::duration::zero();
    lookAt_ = now + (late ? kLookAgain : left);
    return late;
  }
  const Clock::duration window = context_.options.hedging.slowFor;
  const std::uint64_t came = first_.exchange.objectBytes();
  if (!windowBegin_) windowBegin_ = first_.exchange.answeredAt();
  const Clock::duration spent = attentive(*windowBegin_, windowLateness_);
  if (spent < window) {
    lookAt_ = now + (window - spent);
    return false;
  }
  // In a window with a pause, the rate is that of whoever gives memory.
  const bool paused = sink_.full() || first_.exchange.pauses() != pauses_;
  pauses_ = first_.exchange.pauses();
  const auto expected = host_->stragglerRate();
  const double rate =
      static_cast<double>(came - windowBytes_) / std::chrono::duration<double>(spent).count();
  if (expected && rate < *expected && !paused && !first_.exchange.refused()) {
    lookAt_ = now + kLookAgain;
    return true;
  }
  windowBegin_ = now;
  windowLateness_ = context_.reactor.lateness();
  windowBytes_ = came;
  lookAt_ = now + window;
  return false;
}

void HedgedTransfer::tryHedge() {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(WallClock::now().time_since_epoch())
          .count();
  if (request_.expiresAtMs != 0 && request_.expiresAtMs <= now) return;
  const std::uint64_t length = std::min(sink_.pieceRemaining(), sink_.remaining());
  if (length == 0 || !hosts_.tryHedge(*host_, length)) return;
  if (leaveStraggler_) {
    left_ = true;
    hosts_.endHedge();
    first_.exchange.giveUpSlow();
    return;
  }
  HttpRequest request = request_;
  request.hedge = true;
  const std::uint64_t further = sink_.received() - request_.range.received;
  request.range = {
      .offset = request_.range.offset + further, .length = length, .received = sink_.received()};
  ++context_.statistics.requests;
  ++context_.statistics.hedgedRequests;
  hedge_.emplace(context_, std::move(request), sink_);
  sides_.spawn(follow(*this, *hedge_));
}

void HedgedTransfer::measure() {
  const Clock::time_point now = Clock::now();
  for (const Side* const side : {&first_, hedge_ ? &*hedge_ : &first_}) {
    const int answer = side->outcome->answer;
    if (answer == kTooManyRequests || answer == kServiceUnavailable)
      host_->throttled(started_, now);
    if (side->outcome->reset) host_->reset(started_, now);
  }
  const auto answered = first_.exchange.answeredAt();
  // Of one that was broken off it is not known how long it would have taken; but at least so long,
  // and without it the host would look faster than it is.
  if (answered || hedge_ || left_) host_->firstByte(answered.value_or(now) - started_);
  if (answered && first_.exchange.pauses() == 0)
    host_->transferred(first_.exchange.objectBytes(), now - *answered);
}

}  // namespace hearth
