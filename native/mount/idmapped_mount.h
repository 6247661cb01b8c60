// A bind mount through which no process can write, whatever becomes of its flags. Read-only is a
// flag of one mount: a container runtime that is asked for a writable mount binds ours and takes
// the flag off its own (runc since 1.2), and root in the container could write into the cache. An
// idmapped mount (mount_setattr(2), Linux 5.12) that maps no owner of our files has no user who may
// write, and all its copies inherit that. Reading is as fast as without.
#pragma once

#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// A read-only mount of the folder `source`, whose files seem to have no owner, at no path: files
// are opened below the descriptor (openat(2)), also by other processes, and neither mode nor bytes
// of what was opened so can be changed through it. Only folders that others may enter, and files
// that others may read, can be opened. The mount lives as long as the descriptor or a file that was
// opened below it. kUnsupported as bindIdmapped(). Blocks for milliseconds; any thread.
[[nodiscard]] Result<OwnedFd> makeIdmapped(const std::string& source);

// Binds `source` at the directory `target`, read-only, with files that seem to
// have no owner. kUnsupported when the kernel or the file system of `source`
// knows no such mounts, or this process may not make them; nothing is mounted
// then. Blocks for milliseconds; any thread.
[[nodiscard]] Status bindIdmapped(const std::string& source, const std::string& target);

}  // namespace hearth
