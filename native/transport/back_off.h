// The pause before something that has failed is tried again: longer after each failure, with
// jitter, since agents that lost the same peer should not come back at the same instant. One
// thread.
#pragma once

#include "transport/limits.h"

namespace hearth {

class BackOff {
 public:
  [[nodiscard]] bool isOver() const { return Clock::now() >= notBefore_; }
  // It may be tried at once.
  void reset() { *this = {}; }
  // The next pause is a first one.
  void forget() { last_ = {}; }
  void failed();
  // Pauses for about `pause`, whatever was before.
  void pause(Clock::duration pause);

 private:
  Clock::time_point notBefore_{};
  Clock::duration last_{};
};

}  // namespace hearth
