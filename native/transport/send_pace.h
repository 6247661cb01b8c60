// Notices a reader that only trickles: one that keeps bytes waiting in the kernel and takes fewer
// of them than may be expected, so that what it asked for stays in memory for as long as it likes.
// A reader that takes all it is sent has no pace of its own. Pure: no clock of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth {

class SendPace {
 public:
  // Nobody is judged by less time than `window`.
  SendPace(std::uint64_t bytesPerSecond, Clock::duration window)
      : bytesPerSecond_(bytesPerSecond), window_(window) {}

  // Call now and then. `acknowledged`: bytes that have arrived since the connection began;
  // `waiting`: the kernel has bytes that it cannot send yet. True: the reader was waited for all
  // the time since an earlier call, for `window` at least, and was slower than it may be.
  [[nodiscard]] bool isTooSlow(Clock::time_point now, std::uint64_t acknowledged, bool waiting);

 private:
  struct Mark {
    Clock::time_point at;
    std::uint64_t acknowledged;
  };
  const std::uint64_t bytesPerSecond_;
  const Clock::duration window_;
  std::optional<Mark> since_;  // bytes wait since then
};

}  // namespace hearth
