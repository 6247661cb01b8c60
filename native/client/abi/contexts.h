// The contexts behind the handles of the C interface. Any thread.
#pragma once

#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "client/client_context.h"

namespace hearth::gd2fs {

// The contexts of this process. Handles are numbers, so that a closed one is unknown and never
// another one. Lives as long as the process: threads may be in it while the process ends.
class Contexts {
 public:
  // Of so many closed contexts completions that nobody took stay.
  static constexpr std::size_t kMostClosed = 1024;

  static Contexts& all() {
    static Contexts& contexts = make();
    return contexts;
  }

  xfer_gd2fs_ctx* add(std::shared_ptr<ClientContext> context) {
    State& state = *state_.load();
    const std::lock_guard lock(state.mutex);
    const std::uintptr_t number = (last_ += 16);
    state.contexts.emplace(number, std::move(context));
    return reinterpret_cast<xfer_gd2fs_ctx*>(number);
  }
  std::shared_ptr<ClientContext> find(const xfer_gd2fs_ctx* handle) {
    State& state = *state_.load();
    const std::shared_lock lock(state.mutex);
    const auto found = state.contexts.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == state.contexts.end() ? nullptr : found->second;
  }
  // Completions of a context, also of a closed one until all have been taken.
  std::shared_ptr<CompletionQueue> completions(const xfer_gd2fs_ctx* handle) {
    State& state = *state_.load();
    const std::shared_lock lock(state.mutex);
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    const auto open = state.contexts.find(number);
    if (open != state.contexts.end()) return open->second->completions();
    const auto closed = state.closed.find(number);
    return closed == state.closed.end() ? nullptr : closed->second;
  }
  // Null: it is not open. Only its completions remain.
  std::shared_ptr<ClientContext> remove(const xfer_gd2fs_ctx* handle) {
    State& state = *state_.load();
    const std::lock_guard lock(state.mutex);
    const auto found = state.contexts.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == state.contexts.end()) return nullptr;
    std::shared_ptr<ClientContext> context = std::move(found->second);
    state.contexts.erase(found);
    state.closed.emplace(reinterpret_cast<std::uintptr_t>(handle), context->completions());
    if (state.closed.size() > kMostClosed) state.closed.erase(state.closed.begin());
    return context;
  }
  // Of a closed context, when all completions have been taken.
  void forget(const xfer_gd2fs_ctx* handle) {
    State& state = *state_.load();
    const std::lock_guard lock(state.mutex);
    state.closed.erase(reinterpret_cast<std::uintptr_t>(handle));
  }

 private:
  struct State {
    std::shared_mutex mutex;
    std::map<std::uintptr_t, std::shared_ptr<ClientContext>> contexts;
    std::map<std::uintptr_t, std::shared_ptr<CompletionQueue>> closed;
  };

  static Contexts& make() {
    auto* const contexts = new Contexts;
    // A child has the contexts but none of their threads, and may have the mutex of one that it
    // does not have: it begins anew, and what it inherits stays as it is.
    pthread_atfork(nullptr, nullptr, [] { all().state_ = new State; });
    return *contexts;
  }

  std::atomic<State*> state_{new State};
  std::atomic<std::uintptr_t> last_{0};  // goes on in a child, to which its parent's are unknown
};

}  // namespace hearth::gd2fs
