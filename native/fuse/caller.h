// Who makes a request of the kernel, for what each reader of a mount may have its part of. Any
// thread.
#pragma once

#include <cstdint>

namespace hearth {

// The same number for requests of one process; `thread` is the header's pid, with which the kernel
// names the thread that asks. 0 is a process outside of the pid namespace in which the file system
// was mounted: such processes are distinguished by `user` alone. Looks a thread up in /proc: where
// that is another namespace's, each thread counts for itself.
[[nodiscard]] std::uint64_t callerOf(std::uint32_t thread, std::uint32_t user);

}  // namespace hearth
