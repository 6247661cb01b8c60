// Reads /proc/self/mountinfo (proc_pid_mountinfo(5)). Hearth looks for mounts in no other way: stat
// and statfs of a mount whose server is gone never return.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth {

struct MountInfoRow {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  std::string target;
  std::string type;  // "fuse.hearth", "ext4"
  std::string source;
};

// One line of the file; nothing when it is not one. Pure.
[[nodiscard]] std::optional<MountInfoRow> parseMountInfoLine(std::string_view line);

// All rows, in the order in which they were mounted. Any thread.
[[nodiscard]] Result<std::vector<MountInfoRow>> readMountInfo();

// The mount that one sees at `target` (the last one mounted there), a canonical path; nothing when
// `target` is not a mount point.
[[nodiscard]] Result<std::optional<MountInfoRow>> findMount(std::string_view target);

}  // namespace hearth
