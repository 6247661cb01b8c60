// The lock and the socket that make a process the holder of a path. Any thread.
#pragma once

#include <chrono>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

struct HolderListener {
  // Of flock(2): whoever has a copy of this descriptor is the holder, until the last copy is
  // closed.
  OwnedFd lock;
  OwnedFd socket;  // listens, non-blocking
};

// The lock of the holder at `socketPath`. kInUse while another process has it, after `timeout`.
[[nodiscard]] Result<OwnedFd> lockHolder(const std::string& socketPath,
                                         std::chrono::milliseconds timeout);

// Binds the path (mode 0600; the folder must exist) in place of what lies there. For whoever has
// its lock.
[[nodiscard]] Result<OwnedFd> listenAsHolder(const std::string& socketPath);

}  // namespace hearth
