// Decodes an ioctl on a file or folder.
#pragma once

#include <cstdint>
#include <optional>

#include "fuse/hearth_ioctl.h"
#include "fuse/mount_source.h"

namespace hearth {

// Nothing: a request of something else, or of a later release.
inline std::optional<Advice> adviceOf(std::uint32_t command) {
  switch (command) {
    case HEARTH_IOC_WILLNEED:
      return Advice::kWillNeed;
    case HEARTH_IOC_WILLNEED_CLUSTER:
      return Advice::kWillNeedCluster;
    case HEARTH_IOC_DONTNEED:
      return Advice::kDontNeed;
    case HEARTH_IOC_DONTNEED_MEMORY:
      return Advice::kDontNeedMemory;
    default:
      return std::nullopt;
  }
}

}  // namespace hearth
