// Identifies the process behind a request of the kernel, so that each reader of a mount gets a
// share of its limits. Any thread.
#pragma once

#include <cstdint>

namespace hearth {

// The same number for requests of one process; `thread` is the header's pid, with which the kernel
// names the thread that asks. 0 stands for a process outside of the pid namespace in which the file
// system was mounted: `user` alone distinguishes such processes, and is the same for all of them
// where kernels can map the ids of the mount (FUSE_ALLOW_IDMAP). Looks a thread up in /proc: where
// /proc belongs to another namespace, each thread counts for itself.
[[nodiscard]] std::uint64_t callerOf(std::uint32_t thread, std::uint32_t user);

}  // namespace hearth
