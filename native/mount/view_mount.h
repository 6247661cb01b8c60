// Binding a view to a mount point: the kernel serves it from then on, and no process of ours is in
// the way. Both block for at most the deadline of `calls`, whatever the mount point lies on; on a
// helper thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "holder/child_call.h"

namespace hearth {

// Binds `view` read-only at `target`, an existing directory. The same binding twice is one. kInUse
// when something else is mounted there, kPermissionDenied without CAP_SYS_ADMIN.
[[nodiscard]] Status bindView(ChildCalls& calls, const std::string& view,
                              const std::string& target);

// kInUse while files are open there, kNotFound when nothing is mounted.
[[nodiscard]] Status unbindView(ChildCalls& calls, const std::string& target);

// The name under which the view bound at `target` is published.
[[nodiscard]] std::string viewPublishName(const std::string& target);

struct BoundViews {
  std::map<std::string, Sha256Digest> mounted;  // by target
  std::vector<std::string> gone;                // names of publishes whose mount is no more
};

// Which of the published views are still bound, after an earlier agent has bound them: a publish
// and a mount of the kernel's table belong together when the name is the target's. Blocks; any
// thread.
[[nodiscard]] Result<BoundViews> findBoundViews(std::map<std::string, Sha256Digest> published);

}  // namespace hearth
