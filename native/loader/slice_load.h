// Loads parts of tensors by the ranks of one node, which read each byte that one of them wants once
// between them. Not a door: only the room uses it.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "gpu/device.h"
#include "loader/load_plan.h"
#include "loader/node_ranks.h"
#include "loader/parallel_read.h"
#include "memory/memory_region.h"

namespace hearth {

// `plan`: of planSlices(), with memory on `device`, or on the host when that is null, for each of
// its files. `files`: those that all ranks load, of which the plan may lack some. Into a GPU each
// rank copies its own bytes only.
//
// Blocks, on any thread; other threads touch the memory no more afterwards. All ranks succeed or
// all fail, with the first failure; errors as readInParallel() and NodeRanks. `options.progress`
// counts the bytes of this rank's slices.
[[nodiscard]] Status loadSlices(const LoadPlan& plan,
                                std::span<const std::shared_ptr<const ModelFile>> files,
                                const std::vector<std::shared_ptr<MemoryRegion>>& memories,
                                const RankPlace& place, const std::shared_ptr<Device>& device,
                                const ReadOptions& options);

}  // namespace hearth
