// Loads a plan by several processes of one node, which read each byte once between them.
// Not a door: only the room uses it.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "loader/load_plan.h"
#include "loader/node_ranks.h"
#include "loader/parallel_read.h"
#include "memory/memory_region.h"

namespace hearth {

// Memory for each file of the plan, null for one without bytes; host memory when `device` is null.
// The ranks share the pages of host memory until one of them writes there and gets its own. Into a
// GPU each rank copies all bytes from the shared memory, which then goes.
//
// Blocks, as NodeRanks does. All ranks succeed or all fail, except where a rank's own device does.
// `options.progress` counts the bytes of this rank's share.
[[nodiscard]] Result<std::vector<std::shared_ptr<MemoryRegion>>> loadTogether(
    const LoadPlan& plan, const RankPlace& place, const std::shared_ptr<Device>& device,
    const ReadOptions& options);

}  // namespace hearth
