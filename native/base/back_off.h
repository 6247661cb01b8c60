// Pauses between attempts, which keep agents that failed together from coming back together.
#pragma once

#include <algorithm>
#include <random>

#include "base/clock.h"

namespace hearth {

// Between half and all of `pause`, at random. Any thread.
[[nodiscard]] inline Clock::duration jittered(Clock::duration pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  return pause / 2 + pause * static_cast<int>(random() % 1024) / 2048;
}

// A pause that doubles after each failed attempt, up to a longest one. One thread.
class DoublingPause {
 public:
  DoublingPause(Clock::duration first, Clock::duration longest)
      : first_(first), longest_(longest), next_(first) {}

  // The jittered pause after one more failure.
  [[nodiscard]] Clock::duration next() {
    const Clock::duration pause = next_;
    next_ = std::min(2 * next_, longest_);
    return jittered(pause);
  }
  // An attempt has succeeded.
  void reset() { next_ = first_; }

 private:
  const Clock::duration first_, longest_;
  Clock::duration next_;
};

}  // namespace hearth
