// Counts coroutines of callers that are inside something, so that its owner can wait until none is.
// On the reactor's thread.
#pragma once

#include "reactor/synchronization.h"

namespace hearth {

class Callers {
 public:
  // `reactor` must remain live while this object is used.
  explicit Callers(Reactor& reactor) : gone_(reactor) { gone_.set(); }

  // Counts one caller for as long as it lives.
  class Inside {
   public:
    // `callers` must remain live while this object is used.
    explicit Inside(Callers& callers) : callers_(callers) {
      ++callers_.inside_;
      callers_.gone_.reset();
    }
    ~Inside() {
      if (--callers_.inside_ == 0) callers_.gone_.set();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Callers& callers_;
  };

  // Awaitable: ends when none is inside.
  [[nodiscard]] auto gone() { return gone_.wait(); }

 private:
  std::size_t inside_ = 0;
  Event gone_;
};

}  // namespace hearth
