// The asker's side of credit (wire/frame.h, Credit): how much it may have unanswered on one
// connection. First come, first served, so that a large request is not starved by small ones. On
// the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"

namespace hearth {

class CreditGate {
 public:
  // `reactor` must remain live while this object is used.
  explicit CreditGate(Reactor& reactor) : reactor_(reactor) {}

  // Before the first: one request at a time.
  void setLimit(std::uint64_t bytes, std::uint64_t requests);
  // Waits for room for one request. True: the caller owns it and gives it back by release(). False:
  // the deadline or close() came first.
  // `onlyWhile` is asked every so often; when it says no, that is as if the deadline had come.
  [[nodiscard]] Task<bool> acquire(std::uint64_t cost, Clock::time_point deadline,
                                   Clock::duration every = Clock::duration::max(),
                                   std::function<bool()> onlyWhile = {});
  void release(std::uint64_t cost);
  // None gets anything any more; those that wait are woken.
  void close();

 private:
  struct Waiter {
    Event decided;
    std::uint64_t cost;
    bool granted = false;
  };
  [[nodiscard]] bool take(std::uint64_t cost);
  void serve();

  Reactor& reactor_;
  std::list<Waiter*> waiters_;
  std::uint64_t byteLimit_ = 0, requestLimit_ = 1;
  std::uint64_t bytesOut_ = 0, requestsOut_ = 0;
  bool closed_ = false;
};

}  // namespace hearth
