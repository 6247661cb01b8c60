// Serves tensors from the page cache without a copy. Not a door: only the room uses it.
#pragma once

#include <optional>

#include "base/result.h"
#include "loader/load_plan.h"
#include "memory/memory_region.h"

namespace hearth {

struct MappedFile {
  FilePlan plan;  // without reads; its tensors lie where they lie in the file
  std::shared_ptr<MemoryRegion> memory;
};

// A private mapping of the file, whose pages are the page cache's until somebody writes there. No
// answer where a copy is needed: bytes of the plan are not in the page cache, or processors want a
// tensor elsewhere. Touches each page, so that later use waits for nothing. Any thread.
[[nodiscard]] std::optional<MappedFile> mapCachedFile(const FilePlan& plan);

}  // namespace hearth
