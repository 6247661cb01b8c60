// Waiting on a foreign thread for what a reactor does.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "reactor/reactor.h"

namespace hearth {

// Awaits `task` on `reactor`, which another thread runs, and blocks the calling thread until it has
// ended.
template <class T>
T runOn(Reactor& reactor, Task<T> task) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> value;
  } state;
  struct Wrap {
    static Task<void> run(Task<T> inner, State& into) {
      T value = co_await inner;
      const std::lock_guard lock(into.mutex);
      into.value.emplace(std::move(value));
      into.changed.notify_one();
    }
  };
  reactor.post([wrapped = std::make_shared<Task<void>>(Wrap::run(std::move(task), state))] {
    spawn(std::move(*wrapped));
  });
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock, [&] { return state.value.has_value(); });
  return std::move(*state.value);
}

}  // namespace hearth
