// A few threads for functions that block or compute: the reactor's helpers for quick calls on
// names, and pools of their own for work that takes longer, so that a quick call never waits
// behind it. Work is begun in the order in which it was given.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hearth {

class ThreadPool {
 public:
  struct Options {
    std::size_t threads = 4;  // at most; each is started when it is first needed
    int niceness = 0;         // as nice(2); disks that know priorities follow it
  };

  explicit ThreadPool(Options options) : options_(options) {}
  // Blocks until everything that was given has run.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Any thread. `function` must not throw. Callers bound their own work here: each coroutine that
  // offloads waits for its own.
  void run(std::function<void()> function);

 private:
  void loop();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool ending_ = false;
};

}  // namespace hearth
