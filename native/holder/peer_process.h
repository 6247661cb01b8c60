// Tells if the process at the other end of a socket has ended. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/owned_fd.h"

namespace hearth {

// A descriptor of the process that connected `socket` (pidfd_open(2)), also when it is of another
// PID namespace (SO_PEERPIDFD, Linux 6.5); before that, of `pid`, which SO_PEERCRED gave. None
// when the kernel gives none.
[[nodiscard]] OwnedFd processOf(int socket, pid_t pid);

// All threads of it have ended: none runs any more, its memory is unmapped and its files are
// closed. What its io_uring or hardware has in flight may be still.
[[nodiscard]] bool hasEnded(const OwnedFd& process);

// True when both sockets belong to one process; nothing where the kernel does not say: before Linux
// 6.9, and for a process of another PID namespace.
[[nodiscard]] std::optional<bool> sameProcess(const OwnedFd& a, const OwnedFd& b);

}  // namespace hearth
