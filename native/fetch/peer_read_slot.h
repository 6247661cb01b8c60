#pragma once

#include <cstdint>
#include <list>
#include <utility>

#include "fetch/urgency.h"
#include "reactor/synchronization.h"

namespace hearth {

// Bounds the chunks that background work reads from peers at a time. First come, first served; work
// that a reader joins leaves the queue. Used on one shard's thread only.
class PeerReadSlots {
 public:
  // `reactor` must remain live while this object is used.
  PeerReadSlots(Reactor& reactor, std::uint32_t chunks) : reactor_(reactor), free_(chunks) {}
  PeerReadSlots(const PeerReadSlots&) = delete;
  PeerReadSlots& operator=(const PeerReadSlots&) = delete;

 private:
  friend class PeerReadSlot;
  struct Waiter {
    Event decided;
    std::uint32_t chunks;
    bool given = false;
  };

  void serve() {
    while (!waiters_.empty() && waiters_.front()->chunks <= free_) {
      Waiter& next = *waiters_.front();
      waiters_.pop_front();
      free_ -= next.chunks;
      next.given = true;
      next.decided.set();
    }
  }

  Reactor& reactor_;
  std::uint32_t free_;
  std::list<Waiter*> waiters_;
};

// A run's slot among PeerReadSlots.
class PeerReadSlot {
 public:
  // `slots` must remain live while this object is used.
  explicit PeerReadSlot(PeerReadSlots& slots) : slots_(slots) {}
  ~PeerReadSlot() { leave(); }
  PeerReadSlot(const PeerReadSlot&) = delete;
  PeerReadSlot& operator=(const PeerReadSlot&) = delete;

  [[nodiscard]] bool held() const { return chunks_ != 0; }
  // Waits for a slot. Ends without one when a reader waits, now or meanwhile: demand needs none.
  [[nodiscard]] Task<void> take(Urgency& urgency, std::uint32_t chunks) {
    if (urgency.demand()) co_return;
    PeerReadSlots::Waiter waiter{Event(slots_.reactor_), chunks};
    const Urgency::Watch watch(urgency, [&waiter] { waiter.decided.set(); });
    slots_.waiters_.push_back(&waiter);
    slots_.serve();
    co_await waiter.decided.wait();
    if (waiter.given) {
      chunks_ = chunks;
    } else {
      slots_.waiters_.remove(&waiter);
      slots_.serve();  // those behind may fit
    }
  }
  void leave() {
    slots_.free_ += std::exchange(chunks_, 0);
    slots_.serve();
  }

 private:
  PeerReadSlots& slots_;
  std::uint32_t chunks_ = 0;
};

}  // namespace hearth
