// Checks the pace of a transfer. Private to this room. One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace hearth {

// Checks once in each window of time.
class PaceWindow {
 public:
  PaceWindow(Clock::duration window, std::uint64_t bytesPerSecond)
      : window_(window),
        least_(std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(std::chrono::duration<double>(window).count() *
                                          static_cast<double>(bytesPerSecond)))) {}
  [[nodiscard]] Clock::time_point end() const { return end_; }
  // At the end of a window; false before it.
  [[nodiscard]] bool tooSlow(std::uint64_t bytes) {
    if (Clock::now() < end_) return false;
    const bool slow = bytes - before_ < least_;
    before_ = bytes;
    end_ = Clock::now() + window_;
    return slow;
  }

 private:
  const Clock::duration window_;
  const std::uint64_t least_;
  std::uint64_t before_ = 0;
  Clock::time_point end_ = Clock::now() + window_;
};

}  // namespace hearth
