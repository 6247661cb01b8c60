// Where a volume's work that takes long runs, while its coroutine waits: not on the reactor's
// thread, which serves others meanwhile.
#pragma once

#include <utility>

#include "reactor/reactor.h"

namespace hearth {

struct Background {
  Reactor& reactor;
  ThreadPool* pool = nullptr;  // null: the reactor's helpers

  // The value of work(), which may block; the coroutine continues on the reactor.
  template <class Work>
  [[nodiscard]] auto run(Work work) const {
    return pool == nullptr ? reactor.offload(std::move(work))
                           : reactor.offload(*pool, std::move(work));
  }
};

}  // namespace hearth
