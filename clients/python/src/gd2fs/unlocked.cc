#include "unlocked.h"

#include <pthread.h>

#include <atomic>

namespace hearth::python {

// Lives as long as the process, whose threads may outlive static objects. A child of fork(2) has
// none of the threads that its parent counts, so it counts anew: its end would wait for ever.
Unlocked::Shared& Unlocked::shared() {
  static std::atomic<Shared*> all = [] {
    pthread_atfork(nullptr, nullptr, [] { all.store(new Shared); });
    return new Shared;
  }();
  return *all.load();
}

Unlocked::Unlocked() {
  Shared& all = shared();
  {
    const std::lock_guard lock(all.mutex);
    if (all.isEnding) return;
    ++all.scopes;
  }
  thread_ = PyEval_SaveThread();
}

Unlocked::~Unlocked() {
  if (thread_ == nullptr) return;
  PyEval_RestoreThread(thread_);
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  if (--all.scopes == 0) all.changed.notify_all();
}

void Unlocked::endAll() {
  PyThreadState* const thread = PyEval_SaveThread();
  Shared& all = shared();
  {
    std::unique_lock lock(all.mutex);
    all.isEnding = true;
    all.changed.wait(lock, [&] { return all.scopes == 0; });
  }
  PyEval_RestoreThread(thread);
}

}  // namespace hearth::python
