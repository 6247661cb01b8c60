// Binds a view to a mount point: the kernel serves it from then on, without a process of ours. Both
// functions block for at most the deadline of `calls`, whatever file system the mount point is on;
// on a helper thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "holder/child_call.h"

namespace hearth {

// Binds `view` read-only at `target`, an existing directory. Binding the same twice is one binding.
// kInUse when something else is mounted there, kPermissionDenied without CAP_SYS_ADMIN.
[[nodiscard]] Status bindView(ChildCalls& calls, const std::string& view,
                              const std::string& target);

// kInUse while files are open there, kNotFound when nothing is mounted.
[[nodiscard]] Status unbindView(ChildCalls& calls, const std::string& target);

// The name under which the view bound at `target` is published.
[[nodiscard]] std::string viewPublishName(const std::string& target);

struct BoundViews {
  std::map<std::string, Sha256Digest> mounted;  // by target
  std::vector<std::string> gone;                // names of publishes whose mount is gone
};

// The published views that an earlier agent has bound and that are still bound: a publish and a
// mount in the kernel's table belong together when the name is the target's. Blocks; any thread.
[[nodiscard]] Result<BoundViews> findBoundViews(std::map<std::string, Sha256Digest> published);

}  // namespace hearth
