// Task<T>: a lazy C++20 coroutine. It starts when awaited and resumes its awaiter by symmetric
// transfer when it ends, on whatever thread it ended. Not thread-safe: one awaiter.
//
// A task that is awaited at once is awaited where it is made, `co_await files.unlink(path)`; it has
// a name only when something else uses it. What the expression made lives until the whole of it
// is done. gcc 12 destroys some of that twice (GCC bugs 99576, 104031; task_test.cc finds it), so
// this is compiled by clang. Coroutine functions take their parameters by value, or by reference
// to what outlives them; a lambda that is a coroutine has no captures.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace hearth {

template <class T = void>
class Task;

namespace task_detail {

struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> handle) const noexcept {
    const std::coroutine_handle<> continuation = handle.promise().continuation;
    return continuation ? continuation : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() const noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace task_detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = task_detail::Promise<T>;

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) noexcept {
    handle_.promise().continuation = awaiter;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  friend promise_type;
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace task_detail {

template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void unhandled_exception() const noexcept { std::terminate(); }
    void return_void() const noexcept {}
  };
};

inline Detached runDetached(Task<void> task) { co_await task; }

}  // namespace task_detail

// Starts `task` now, on this thread, and lets it end by itself. Prefer Gate::spawn, which can be
// awaited.
inline void spawn(Task<void> task) { task_detail::runDetached(std::move(task)); }

}  // namespace hearth
