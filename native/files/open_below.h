// Opening files of a tree that others may write to. Blocks for path look-ups; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth {

// As FileSystem::openBelow: a descriptor of the caller's. By openat2(2), Linux 5.6: where the
// kernel does not have it, kUnsupported, since looking at a path before opening it proves nothing.
[[nodiscard]] Result<int> openRegularBelow(const std::string& root, const std::string& path);

}  // namespace hearth
