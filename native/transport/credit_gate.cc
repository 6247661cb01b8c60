#include "transport/credit_gate.h"

namespace hearth {

bool CreditGate::take(std::uint64_t cost) {
  const bool fits =
      requestsOut_ == 0 || (requestsOut_ < requestLimit_ && bytesOut_ + cost <= byteLimit_);
  if (!fits) return false;
  bytesOut_ += cost;
  ++requestsOut_;
  return true;
}

void CreditGate::serve() {
  while (!waiters_.empty() && take(waiters_.front()->cost)) {
    Waiter* const waiter = waiters_.front();
    waiters_.pop_front();
    waiter->granted = true;
    waiter->decided.set();
  }
}

void CreditGate::setLimit(std::uint64_t bytes, std::uint64_t requests) {
  byteLimit_ = bytes;
  requestLimit_ = requests;
  serve();
}

Task<bool> CreditGate::acquire(std::uint64_t cost, Clock::time_point deadline,
                               Clock::duration every, std::function<bool()> onlyWhile) {
  if (closed_) co_return false;
  if (waiters_.empty() && take(cost)) co_return true;
  Waiter waiter{Event(reactor_), cost};
  const auto position = waiters_.insert(waiters_.end(), &waiter);
  for (;;) {
    const Clock::time_point now = Clock::now();
    const bool looks = onlyWhile && every < deadline - now;
    co_await waiter.decided.waitUntil(looks ? now + every : deadline);
    if (waiter.decided.isSet()) co_return waiter.granted;
    if (Clock::now() >= deadline || (onlyWhile && !onlyWhile())) break;
  }
  waiters_.erase(position);
  serve();  // waiters behind may fit where this one did not
  co_return false;
}

void CreditGate::release(std::uint64_t cost) {
  bytesOut_ -= cost;
  --requestsOut_;
  serve();
}

void CreditGate::close() {
  closed_ = true;
  for (Waiter* const waiter : waiters_) waiter->decided.set();
  waiters_.clear();
}

}  // namespace hearth
