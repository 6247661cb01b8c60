// Touches memory that the holder keeps, so that its own control group is charged for it: a child
// process does so, and others are served meanwhile. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/child_call.h"

namespace hearth {

// Begins to take the room of [offset, offset + bytes) of `memory`, whole pages inside it. Of
// ordinary pages no more than memoryRoom(): where that is passed the kernel ends processes, and the
// holder with them. kOutOfSpace.
[[nodiscard]] Result<ChildCalls::Running> beginTouch(ChildCalls& calls, const OwnedFd& memory,
                                                     std::uint64_t offset, std::uint64_t bytes);
// How much of it lies in pages of 2 MiB or more. kOutOfSpace, kInvalidArgument.
[[nodiscard]] Result<std::uint64_t> finishTouch(ChildCalls& calls, ChildCalls::Running running);

// The memory that the control group of this process may still take (memory.max of cgroups(7),
// version 2, of this group and all groups around it); the highest number where there is no limit.
// Page cache that needs no writing counts as room: groups around this one are full of such pages as
// soon as their files have been read. `root` is put before /sys and /proc: tests bring a tree of
// their own.
[[nodiscard]] std::uint64_t controlGroupRoom(const std::string& root = {});
// The same, and no more than the machine has (MemAvailable of proc_meminfo(5)).
[[nodiscard]] std::uint64_t memoryRoom(const std::string& root = {});

}  // namespace hearth
