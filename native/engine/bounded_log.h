// How many lines of the log may wait for the agent above. Other events need no such bound: they are
// as many as wait for their answers, which are bounded where they are let in.
#pragma once

#include <cstddef>

#include "dataset/engine_event.h"

namespace hearth {

// Of the lines that the agent has not taken yet. It takes them as fast as its thread comes round.
inline constexpr std::size_t kMaxLogLines = 4096;

// The same, but for lines beyond `most`: these are left out, and the next one that finds room says
// in its field `lines_left_out` how many. A line has been taken when its event is destroyed. Any
// thread.
[[nodiscard]] EventSink withBoundedLog(EventSink events, std::size_t most = kMaxLogLines);

}  // namespace hearth
