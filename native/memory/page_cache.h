// Which bytes of files the kernel has in memory. Any thread.
#pragma once

#include <cstdint>

#include "memory/aligned_mapping.h"

namespace hearth {

// Reading the bytes waits for no disk. A guess where the kernel does not tell (before Linux 6.5,
// and for files of other users): by the first and the last of them. Of a FUSE mount with
// passthrough only root learns that they are; others get false.
[[nodiscard]] bool arePagesCached(int file, std::uint64_t offset, std::uint64_t bytes);

// The same, and maps the pages, so that using them waits for nothing. `mapping` is of the whole
// file.
[[nodiscard]] bool populateCachedPages(int file, const AlignedMapping& mapping,
                                       std::uint64_t offset, std::uint64_t bytes);

}  // namespace hearth
