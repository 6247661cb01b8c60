// Mounts that agents made for pods below the folder of a cluster on this node. Bind mounts of views
// are among them, which belong to no process: an agent that ends leaves them to the next one, so
// the holder, which ends last, unmounts them. Blocks for milliseconds; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "holder/child_call.h"

namespace hearth {

// Detaches everything that is mounted below `folder` and removes the folders that were mount points
// there. Who has bound a mount elsewhere, as csi-node for pods, keeps it: what is bound holds its
// file system by itself. Fine when there is no such folder. Needs CAP_SYS_ADMIN. Returns what went
// wrong.
[[nodiscard]] std::vector<std::string> detachStaleMounts(ChildCalls& calls,
                                                         const std::string& folder);

// Lets none but the owner into a folder that another user may have made (mode 0700).
[[nodiscard]] Status closeFolder(const std::string& folder);

}  // namespace hearth
