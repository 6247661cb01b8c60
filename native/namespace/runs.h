// Sets of chunks as runs. Pure functions: any thread.
#pragma once

#include <vector>

#include "namespace/ids.h"

namespace hearth::tree {

using Runs = std::vector<ChunkRun>;

// Sorted by session, holder and first chunk, without holes, overlaps and neighbours.
[[nodiscard]] Runs setOf(Runs runs);
// The chunks of `all` that are not in `less`; both are what setOf() gives. At most as many runs as
// both have together.
[[nodiscard]] Runs without(const Runs& all, const Runs& less);
// All chunks of `part` are in `all`; both are what setOf() gives.
[[nodiscard]] inline bool contains(const Runs& all, const Runs& part) {
  return without(part, all).empty();
}

}  // namespace hearth::tree
