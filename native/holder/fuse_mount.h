// The system calls that make, tune and end a FUSE mount. None of them asks the file system's server
// anything; since a path may lead through another file system that hangs, they run in a child
// process with a deadline all the same (ChildCalls). Need CAP_SYS_ADMIN. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/child_call.h"

namespace hearth {

inline constexpr char kFuseType[] = "fuse.hearth";

struct FuseMountOptions {
  std::string source;                // shown as the file system's source
  std::vector<std::string> options;  // "name=value", of allowedMountOption()
  bool writable = false;
  // 4096 lets mmap of a mount run at 2.8 GiB/s where the kernel's 128 gives 1.4 (measured).
  std::uint32_t readAheadKiB = 4096;
};

struct FuseMount {
  OwnedFd device;      // /dev/fuse, non-blocking; the connection lives while it or a copy is open
  std::string target;  // canonical
  std::uint32_t minor = 0;  // of the file system's anonymous device
  Status readAhead;  // why read-ahead could not be raised; the mount works all the same, slower
};

// The canonical form of a path that names a directory. kInvalidArgument when it is not absolute or
// not a directory, kNotFound when it is missing.
[[nodiscard]] Result<std::string> canonicalDirectory(ChildCalls& calls, const std::string& path);
// The same by ChildCalls::begin() and finish().
[[nodiscard]] Result<ChildCalls::Running> beginWalk(ChildCalls& calls, const std::string& path);
[[nodiscard]] Result<std::string> finishWalk(ChildCalls& calls, ChildCalls::Running walk);

// Mounts a FUSE file system, read-only unless it is to be writable, on a canonical path; its
// requests arrive at the device. kInUse when something is mounted on `target` already, except for a
// Hearth mount whose server is gone for ever: that one is detached first. Read-ahead is raised
// before the server can answer FUSE_INIT.
[[nodiscard]] Result<FuseMount> mountFuse(ChildCalls& calls, const std::string& target,
                                          const FuseMountOptions& options);

// Unmounts a canonical path; kInUse while files are open there. `lazy` detaches it at once and ends
// the mount when the last file is closed. Fine when nothing is mounted there.
[[nodiscard]] Status unmountFuse(ChildCalls& calls, const std::string& target, bool lazy);

// True when `device` is a FUSE connection that the holder may keep.
[[nodiscard]] bool isFuseDevice(const OwnedFd& device);

// Aborts a connection: its requests, waiting and future, fail with ECONNABORTED or ENOTCONN.
// Through fusectl, which is mounted when it is not yet there.
[[nodiscard]] Status abortFuseConnection(std::uint32_t minor);

}  // namespace hearth
