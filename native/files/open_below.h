// Opening files of a tree that others may write to. Blocks for path look-ups; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth {

// The regular file at the relative `path` below the directory `root`, for reading: a descriptor of
// the caller's. No symlink is followed below `root`, be it on the way or in the place of the file,
// and nothing leads out of it, whatever is renamed meanwhile: kUnsupported, as for what is no
// regular file. Nothing but a regular file is ever opened, so a pipe keeps no caller waiting. By
// openat2(2), Linux 5.6: where the kernel does not have it, kUnsupported, since looking at a path
// before opening it proves nothing.
[[nodiscard]] Result<int> openRegularBelow(const std::string& root, const std::string& path);

}  // namespace hearth
