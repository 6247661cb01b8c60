#include "reactor/thread_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <utility>

#include "base/blocked_signals.h"

namespace hearth {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(function));
    if (idle_ < work_.size() && threads_.size() < options_.threads) {
      const BlockedSignals blocked;
      threads_.emplace_back([this] { loop(); });
    }
  }
  // Without the mutex, which the woken thread would only wait for.
  changed_.notify_one();
}

void ThreadPool::loop() {
  pthread_setname_np(pthread_self(), "hearth-helper");
  // On Linux a thread's own; lowering it needs no right.
  if (options_.niceness != 0) (void)setpriority(PRIO_PROCESS, 0, options_.niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
    --idle_;
    if (work_.empty()) return;
    const auto function = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

}  // namespace hearth
