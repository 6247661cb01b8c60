#include "reactor/synchronization.h"

namespace hearth {

void Event::set() {
  set_ = true;
  for (Waiter* const waiter : waiters_) {
    waiter->timer.cancel();
    reactor_.resumeSoon(waiter->awaiter);
  }
  waiters_.clear();
}

void Event::Waiter::await_suspend(std::coroutine_handle<> handle) {
  awaiter = handle;
  position = event.waiters_.insert(event.waiters_.end(), this);
  if (deadline == Clock::time_point::max()) return;
  timer.start(deadline, [this] {
    inTime = false;
    event.waiters_.erase(position);
    awaiter.resume();
  });
}

bool Semaphore::tryAcquire(std::uint64_t units) {
  if (!waiters_.empty() || free_ < units) return false;
  free_ -= units;
  return true;
}

void Semaphore::release(std::uint64_t units) {
  free_ += units;
  while (!waiters_.empty() && waiters_.front()->units <= free_) {
    Waiter* const waiter = waiters_.front();
    waiters_.pop_front();
    free_ -= waiter->units;
    reactor_.resumeSoon(waiter->awaiter);
  }
}

void Gate::spawn(Task<void> task) {
  if (closed_) return;
  ++inside_;
  empty_.reset();
  hearth::spawn(hold(*this, std::move(task)));
}

Task<void> Gate::hold(Gate& gate, Task<void> task) {
  co_await task;
  if (--gate.inside_ == 0) gate.empty_.set();
}

Task<void> Gate::close() {
  closed_ = true;
  co_await empty_.wait();
}

}  // namespace hearth
