// Permits that owners share: of the waiting owners the one that holds the fewest is served first,
// and among equals the one served longest ago. An owner alone may hold all; where others wait, the
// permits it gives back go to them until each holds as many. Within an owner first come, first
// served. One thread.
#pragma once

#include <coroutine>
#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "reactor/reactor.h"

namespace hearth {

class FairPermits {
 public:
  // `reactor` must remain live while this object is used.
  FairPermits(Reactor& reactor, std::size_t permits)
      : reactor_(reactor), permits_(static_cast<std::int64_t>(permits)), free_(permits_) {}
  FairPermits(const FairPermits&) = delete;
  FairPermits& operator=(const FairPermits&) = delete;

 private:
  struct Waiter {
    FairPermits& permits;
    const std::string& owner;  // lives in the caller's frame
    std::coroutine_handle<> awaiter;

    bool await_ready() { return permits.tryTake(owner); }
    void await_suspend(std::coroutine_handle<> handle);
    void await_resume() const noexcept {}
  };

 public:
  // Awaitable: one permit, which the caller gives back by release(). `owner` stays until then.
  [[nodiscard]] Waiter acquire(const std::string& owner) { return Waiter{*this, owner, {}}; }
  void release(const std::string& owner);

  // There are so many from now on. Holders keep permits beyond that number; a permit that they
  // release then goes to no other.
  void resize(std::size_t permits);
  [[nodiscard]] std::size_t permits() const { return static_cast<std::size_t>(permits_); }
  // None is free.
  [[nodiscard]] bool full() const { return free_ <= 0; }

  // Another owner waits.
  [[nodiscard]] bool wantedByOther(const std::string& owner) const;

 private:
  struct Owner {
    std::size_t held = 0;
    std::uint64_t served = 0;
    std::list<Waiter*> waiting;
  };

  bool tryTake(const std::string& owner);
  void serve();

  Reactor& reactor_;
  std::int64_t permits_;
  std::int64_t free_;  // below 0: held beyond what there is
  std::uint64_t turn_ = 0;
  std::map<std::string, Owner> owners_;  // those that hold or wait
};

}  // namespace hearth
