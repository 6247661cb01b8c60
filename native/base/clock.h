// The clocks of the engine. All native code takes the time from here, so that a test moves it by
// hand (base/testing/moved_clock.h) where it would wait. Any thread.
#pragma once

#include <atomic>
#include <chrono>

namespace hearth {

namespace clock_internal {
// How far tests have moved both clocks. Never less than it was.
inline std::atomic<std::chrono::nanoseconds::rep> moved{0};

[[nodiscard]] inline std::chrono::nanoseconds movedBy() noexcept {
  return std::chrono::nanoseconds(moved.load(std::memory_order_relaxed));
}
}  // namespace clock_internal

// CLOCK_MONOTONIC: for durations and deadlines. Its points are of a type of their own, so that none
// is compared with a point of another clock.
struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;

  [[nodiscard]] static time_point now() noexcept {
    return time_point(std::chrono::steady_clock::now().time_since_epoch() +
                      clock_internal::movedBy());
  }
};

// The time of day: for what is written down, and for dates of others. Never for deadlines.
struct WallClock {
  using time_point = std::chrono::system_clock::time_point;

  [[nodiscard]] static time_point now() noexcept {
    return std::chrono::system_clock::now() + clock_internal::movedBy();
  }
};

}  // namespace hearth
