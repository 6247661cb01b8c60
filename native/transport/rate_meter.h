// Measures the bytes a second that a rail moves while work is under way on it, over samples of a
// few milliseconds of work, of which the latest counts most. On one thread; time is the caller's.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace hearth {

class RateMeter {
 public:
  using Time = Clock::time_point;

  void started(Time now) {
    if (underWay_++ == 0) busySince_ = now;
  }
  // `bytes` have arrived; 0 for a request that failed.
  void ended(Time now, std::uint64_t bytes);
  // 0: not measured, or so long ago that it says nothing.
  [[nodiscard]] double bytesPerSecond(Time now) const {
    return now - measuredAt_ > kValid ? 0 : rate_;
  }

 private:
  static constexpr std::chrono::milliseconds kSample{2};
  static constexpr std::chrono::seconds kValid{2};

  std::uint32_t underWay_ = 0;
  Time busySince_{}, measuredAt_{};
  Clock::duration busy_{};
  std::uint64_t bytes_ = 0;  // in the time busy_
  double rate_ = 0;
};

}  // namespace hearth
