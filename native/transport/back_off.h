// Pauses before a failed attempt is tried again: longer after each failure, with jitter, so that
// agents that lost the same peer do not come back at the same instant. One thread.
#pragma once

#include "transport/limits.h"

namespace hearth {

class BackOff {
 public:
  [[nodiscard]] bool isOver() const { return Clock::now() >= notBefore_; }
  // The next attempt may come at once.
  void reset() { *this = {}; }
  // Makes the next pause a first one.
  void forget() { last_ = {}; }
  void failed();
  // Pauses for about `pause`, whatever the last pause was.
  void pause(Clock::duration pause);

 private:
  Clock::time_point notBefore_{};
  Clock::duration last_{};
};

}  // namespace hearth
