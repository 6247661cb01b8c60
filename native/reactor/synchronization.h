// Waiting for one another on one reactor's thread: Event, Semaphore, Gate. None is thread-safe,
// none blocks the thread; waiters resume at the next turn of the loop, in order.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "reactor/reactor.h"
#include "reactor/task.h"

namespace hearth {

// Set once (or reset by hand). Any number of waiters, each with a deadline if it likes.
class Event {
 public:
  // `reactor` must remain live while this object is used.
  explicit Event(Reactor& reactor) : reactor_(reactor) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  [[nodiscard]] bool isSet() const { return set_; }
  void set();
  void reset() { set_ = false; }

 private:
  struct Waiter {
    Waiter(Event& owner, Clock::time_point until)
        : event(owner), timer(owner.reactor_), deadline(until) {}
    Event& event;
    Reactor::Timer timer;
    Clock::time_point deadline;
    std::list<Waiter*>::iterator position;
    std::coroutine_handle<> awaiter;
    bool inTime = true;

    bool await_ready() const noexcept { return event.set_; }
    void await_suspend(std::coroutine_handle<> handle);
    bool await_resume() const noexcept { return inTime; }
  };

 public:
  // Awaitables. waitUntil gives false when the deadline came first.
  [[nodiscard]] Waiter wait() { return Waiter(*this, Clock::time_point::max()); }
  [[nodiscard]] Waiter waitUntil(Clock::time_point deadline) { return Waiter(*this, deadline); }

 private:
  Reactor& reactor_;
  std::list<Waiter*> waiters_;
  bool set_ = false;
};

// Counts units of something bounded (bytes in flight, requests). First come, first served: a large
// request is not starved by small ones.
class Semaphore {
 public:
  // `reactor` must remain live while this object is used.
  Semaphore(Reactor& reactor, std::uint64_t units) : reactor_(reactor), free_(units) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void release(std::uint64_t units);
  [[nodiscard]] std::uint64_t available() const { return free_; }
  [[nodiscard]] std::size_t waiting() const { return waiters_.size(); }
  // Takes without waiting, when none waits before us.
  [[nodiscard]] bool tryAcquire(std::uint64_t units);

 private:
  struct Waiter {
    Semaphore& semaphore;
    std::uint64_t units;
    std::coroutine_handle<> awaiter;

    bool await_ready() const { return semaphore.tryAcquire(units); }
    void await_suspend(std::coroutine_handle<> handle) {
      awaiter = handle;
      semaphore.waiters_.push_back(this);
    }
    void await_resume() const noexcept {}
  };

 public:
  // Awaitable. The caller owns `units` afterwards and gives them back by release().
  [[nodiscard]] Waiter acquire(std::uint64_t units) { return Waiter{*this, units, {}}; }

 private:
  Reactor& reactor_;
  std::uint64_t free_;
  std::list<Waiter*> waiters_;
};

// Keeps count of coroutines that run by themselves, so that their owner can wait for them before it
// goes.
class Gate {
 public:
  // `reactor` must remain live while this object is used.
  explicit Gate(Reactor& reactor) : empty_(reactor) { empty_.set(); }

  // Starts `task` now on this thread; after close() has been called it is dropped unstarted.
  void spawn(Task<void> task);
  // Refuses newcomers and waits for those inside.
  [[nodiscard]] Task<void> close();
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::size_t inside() const { return inside_; }

 private:
  static Task<void> hold(Gate& gate, Task<void> task);
  Event empty_;
  std::size_t inside_ = 0;
  bool closed_ = false;
};

}  // namespace hearth
