// Bounds the bytes on their way to the clients of one shard, from before they are looked for until
// they are sent: however many clients ask, and however slowly they take their answers, mounts and
// peers keep the rest of the node's memory. On the shard's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "reactor/synchronization.h"
#include "reactor/task.h"

namespace hearth {

// Use by the clients of one shard, or of all.
struct ClientUse {
  std::uint64_t limitBytes = 0, bytes = 0;  // allowed, and on their way
  std::uint64_t waiting = 0;                // reads, now
  std::uint64_t waited = 0;                 // reads, since the start
  void add(const ClientUse& other) {
    limitBytes += other.limitBytes;
    bytes += other.bytes;
    waiting += other.waiting;
    waited += other.waited;
  }
};

class ClientTransit {
 public:
  // Gives its bytes back when the last copy goes; may outlive the ClientTransit.
  using Pass = std::shared_ptr<const void>;

  // `reactor` must remain live until no pass is waited for.
  ClientTransit(Reactor& reactor, std::uint64_t limitBytes)
      : state_(std::make_shared<State>(reactor, limitBytes)) {}

  // First come, first served. A caller that asks for more than the limit waits until nothing else
  // is on its way.
  [[nodiscard]] Task<Pass> enter(std::uint64_t bytes) {
    const std::shared_ptr<State> state = state_;
    const std::uint64_t taken = std::min(bytes, state->limitBytes);
    if (!state->free.tryAcquire(taken)) {
      ++state->waited;
      co_await state->free.acquire(taken);
    }
    const auto leave = [state, taken](const void*) { state->free.release(taken); };
    co_return Pass(state.get(), leave);
  }
  [[nodiscard]] ClientUse use() const {
    const std::uint64_t free = state_->free.available();
    return {state_->limitBytes, state_->limitBytes - free, state_->free.waiting(), state_->waited};
  }

 private:
  struct State {
    State(Reactor& reactor, std::uint64_t bytes) : free(reactor, bytes), limitBytes(bytes) {}
    Semaphore free;
    const std::uint64_t limitBytes;
    std::uint64_t waited = 0;
  };
  const std::shared_ptr<State> state_;
};

}  // namespace hearth
