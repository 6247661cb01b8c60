// A tmpfs that is mounted nowhere: a folder of files in memory, reached by its descriptor alone, as
// /proc/self/fd/N/NAME. It lives as long as any copy of the descriptor, whichever process has it
// (SCM_RIGHTS), or any open file in it (fsmount(2), Linux 5.2). Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

struct MemoryFolder {
  OwnedFd root;             // O_PATH, of its root directory
  std::string noHugePages;  // why the kernel gives its files none by itself; empty: it does
};

// Files of at most `bytes` together, rounded up to whole pages; of mode 0700, for `owner` and
// `group`. Pages of 2 MiB where a file is large enough (huge=within_size); never in swap where the
// kernel can do that (Linux 6.4). Takes no memory yet. Needs CAP_SYS_ADMIN. kInvalidArgument for 0
// bytes, kPermissionDenied, kUnsupported.
[[nodiscard]] Result<MemoryFolder> makeMemoryFolder(std::uint64_t bytes, uid_t owner, gid_t group);

// Needs CAP_SYS_ADMIN. kInvalidArgument for 0 bytes, kOutOfSpace when its files are more than that.
[[nodiscard]] Status resizeMemoryFolder(const OwnedFd& root, std::uint64_t bytes);

// The most that its files may be together. kInvalidArgument unless it is the root of a tmpfs that
// has a limit.
[[nodiscard]] Result<std::uint64_t> memoryFolderBytes(const OwnedFd& root);

}  // namespace hearth
