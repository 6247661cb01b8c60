// Definitions of Reactor's awaitables. Included by reactor/reactor.h only.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace hearth {

struct [[nodiscard]] Reactor::Awaiter {
  Reactor& reactor;
  Operation operation;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    operation.awaiter = handle;
    reactor.submit(operation);
  }
  std::int32_t await_resume() const noexcept { return operation.result; }
};

struct [[nodiscard]] Reactor::EnterAwaiter final : Posted {
  explicit EnterAwaiter(Reactor& target) : reactor(target) {}
  Reactor& reactor;
  std::coroutine_handle<> awaiter;

  bool await_ready() const noexcept { return reactor.onThisThread(); }
  void await_suspend(std::coroutine_handle<> handle) {
    awaiter = handle;
    reactor.post(*this);
  }
  void await_resume() const noexcept {}
  void run() override { awaiter.resume(); }
};

struct [[nodiscard]] Reactor::SleepAwaiter {
  SleepAwaiter(Reactor& reactor, Clock::time_point until) : timer(reactor), when(until) {}
  Timer timer;
  Clock::time_point when;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    timer.start(when, [handle] { handle.resume(); });
  }
  void await_resume() const noexcept {}
};

template <class F>
struct [[nodiscard]] Reactor::OffloadAwaiter final : Posted {
  using Value = std::invoke_result_t<F&>;

  OffloadAwaiter(Reactor& target, ThreadPool& threads, F work)
      : reactor(target), pool(threads), function(std::move(work)) {}
  Reactor& reactor;
  ThreadPool& pool;
  F function;
  std::optional<Value> value;
  std::coroutine_handle<> awaiter;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    awaiter = handle;
    pool.run([this] {
      value.emplace(function());
      reactor.post(*this);
    });
  }
  Value await_resume() { return std::move(*value); }
  void run() override { awaiter.resume(); }
};

inline auto Reactor::enter() { return EnterAwaiter(*this); }
inline auto Reactor::perform(Operation operation) { return Awaiter{*this, operation}; }

inline auto Reactor::readAt(int fd, std::span<std::byte> into, std::uint64_t offset) {
  return perform({.kind = OperationKind::kRead,
                  .fd = fd,
                  .address = into.data(),
                  .length = static_cast<std::uint32_t>(into.size()),
                  .offset = offset});
}
inline auto Reactor::writeAt(int fd, std::span<const std::byte> from, std::uint64_t offset) {
  return perform({.kind = OperationKind::kWrite,
                  .fd = fd,
                  .address = const_cast<std::byte*>(from.data()),
                  .length = static_cast<std::uint32_t>(from.size()),
                  .offset = offset});
}
inline auto Reactor::syncData(int fd) {
  return perform({.kind = OperationKind::kSyncData, .fd = fd});
}
inline auto Reactor::accept(int fd) { return perform({.kind = OperationKind::kAccept, .fd = fd}); }
inline auto Reactor::connect(int fd, const sockaddr* address, socklen_t size) {
  return perform({.kind = OperationKind::kConnect,
                  .fd = fd,
                  .address = const_cast<sockaddr*>(address),
                  .length = size});
}
inline auto Reactor::receive(int fd, std::span<std::byte> into, int flags) {
  return perform({.kind = OperationKind::kReceive,
                  .fd = fd,
                  .address = into.data(),
                  .length = static_cast<std::uint32_t>(into.size()),
                  .flags = static_cast<std::uint32_t>(flags)});
}
inline auto Reactor::receiveMessage(int fd, msghdr* message, int flags) {
  return perform({.kind = OperationKind::kReceiveMessage,
                  .fd = fd,
                  .address = message,
                  .flags = static_cast<std::uint32_t>(flags)});
}
inline auto Reactor::send(int fd, std::span<const std::byte> from, int flags) {
  return perform({.kind = OperationKind::kSend,
                  .fd = fd,
                  .address = const_cast<std::byte*>(from.data()),
                  .length = static_cast<std::uint32_t>(from.size()),
                  .flags = static_cast<std::uint32_t>(flags | MSG_NOSIGNAL)});
}
inline auto Reactor::sendMessage(int fd, const msghdr* message, int flags) {
  return perform({.kind = OperationKind::kSendMessage,
                  .fd = fd,
                  .address = const_cast<msghdr*>(message),
                  .flags = static_cast<std::uint32_t>(flags | MSG_NOSIGNAL)});
}
inline auto Reactor::poll(int fd, std::uint32_t events) {
  return perform({.kind = OperationKind::kPoll, .fd = fd, .flags = events});
}
inline auto Reactor::sleep(Clock::duration delay) {
  return SleepAwaiter(*this, Clock::now() + delay);
}

template <class F>
auto Reactor::offload(F function) {
  return OffloadAwaiter<F>(*this, helpers_, std::move(function));
}
template <class F>
auto Reactor::offload(ThreadPool& pool, F function) {
  return OffloadAwaiter<F>(*this, pool, std::move(function));
}

template <class T>
T Reactor::runUntilComplete(Task<T> task) {
  if constexpr (std::is_void_v<T>) {
    struct Wrap {
      static Task<void> run(Task<void> inner, Reactor& reactor) {
        co_await reactor.enter();
        co_await inner;
        co_await reactor.enter();
        reactor.stop();
      }
    };
    post([wrapped = std::make_shared<Task<void>>(Wrap::run(std::move(task), *this))] {
      spawn(std::move(*wrapped));
    });
    run();
  } else {
    std::optional<T> value;
    struct Wrap {
      static Task<void> run(Task<T> inner, Reactor& reactor, std::optional<T>& into) {
        into.emplace(co_await inner);
        co_await reactor.enter();
        reactor.stop();
      }
    };
    post([wrapped = std::make_shared<Task<void>>(Wrap::run(std::move(task), *this, value))] {
      spawn(std::move(*wrapped));
    });
    run();
    return std::move(*value);
  }
}

}  // namespace hearth
