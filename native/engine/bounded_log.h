// Bounds the log lines that wait for the agent above. Other events need no bound: each of them
// waits for an answer, and requests that wait for answers are bounded where they are let in.
#pragma once

#include <cstddef>

#include "dataset/engine_event.h"

namespace hearth {

// Lines that the agent has not taken yet. It takes them as fast as its thread comes round.
inline constexpr std::size_t kMaxLogLines = 4096;

// Returns `events` with a bound on log lines: drops lines beyond `most`, and reports their number
// in the field `lines_left_out` of the next line that finds room. A line counts as taken when its
// event is destroyed. Any thread.
[[nodiscard]] EventSink withBoundedLog(EventSink events, std::size_t most = kMaxLogLines);

}  // namespace hearth
