// Takes the room of memory in a file before it is used. Who touches memory first is charged
// for it (memory.max of a control group, cgroups(7)), whoever uses it later; and memory that is
// missing is an error here, where a later touch would end the process (SIGBUS).
#pragma once

#include <cstdint>

#include "base/result.h"

namespace hearth {

struct TouchedMemory {
  // Of the bytes asked for those that lie in pages of 2 MiB or more.
  std::uint64_t hugeBytes = 0;
};

// Touches [offset, offset + bytes) of a file of memfd_create(2) or of a tmpfs, which can be read
// and written: whole pages of those that it has, and leaves what is in it as it is. Ordinary pages
// are made into transparent huge ones where the kernel does so (MADV_COLLAPSE, Linux 6.1), also
// where its policy for shared memory is `never`. Takes 0.1 s a GiB, and 2 s in a virtual machine
// whose host gives memory only then. Any thread; the caller's control group is charged, and where
// its memory.max is passed the kernel ends a process of it.
//
// kOutOfSpace says how many huge pages (MFD_HUGETLB) are missing; those that were got stay.
[[nodiscard]] Result<TouchedMemory> touchMemory(int file, std::uint64_t offset,
                                                std::uint64_t bytes);

// Size of the pages of the file: 4096, or what it was made with by MFD_HUGETLB.
[[nodiscard]] Result<std::uint64_t> pageBytesOf(int file);

}  // namespace hearth
