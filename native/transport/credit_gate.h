// The asker's side of credit (wire/frame.h, Credit): bounds its unanswered requests on one
// connection. First come, first served, so that small requests do not starve a large one. On the
// reactor's thread.
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

  // Until the first call one request may be out at a time.
  void setLimit(std::uint64_t bytes, std::uint64_t requests);
  // Waits for room for one request. True: the caller owns the room and gives it back by release().
  // False: the deadline or close() came first. `onlyWhile` is called every so often; its false
  // counts as the deadline.
  [[nodiscard]] Task<bool> acquire(std::uint64_t cost, Clock::time_point deadline,
                                   Clock::duration every = Clock::duration::max(),
                                   std::function<bool()> onlyWhile = {});
  void release(std::uint64_t cost);
  // Grants nothing any more, and wakes waiters.
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
