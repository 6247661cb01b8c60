// Time that passes because a test says so.
#pragma once

#include "base/clock.h"

namespace hearth {

// Moves both clocks of the process forward, for all threads and for good. A reactor that sleeps
// until a time notices when it is woken: post something to it.
inline void moveClock(Clock::duration by) {
  clock_internal::moved.fetch_add(by.count(), std::memory_order_relaxed);
}

}  // namespace hearth
