#include "unlocked.h"

namespace hearth::python {

// Lives as long as the process, whose threads may outlive static objects.
Unlocked::Shared& Unlocked::shared() {
  static auto& all = *new Shared;
  return all;
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
