// Binding a view to a mount point: the kernel serves it from then on, and no process of ours is in
// the way. Both block; on a helper thread.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth {

// Binds `view` read-only at `target`, an existing directory. The same binding twice is one. kInUse
// when something else is mounted there, kPermissionDenied without CAP_SYS_ADMIN.
[[nodiscard]] Status bindView(const std::string& view, const std::string& target);

// kInUse while files are open there, kNotFound when nothing is mounted.
[[nodiscard]] Status unbindView(const std::string& target);

}  // namespace hearth
