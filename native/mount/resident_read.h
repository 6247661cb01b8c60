// Answers reads whose bytes are here: in memory or in the cache file. A read is at most as long as
// a chunk, so it touches two chunks at most. Any thread.
#pragma once

#include <optional>

#include "fetch/file_fetch.h"
#include "fuse/mount_source.h"
#include "mount/mount_ports.h"

namespace hearth {

// Reads from memory only, and never blocks. Nothing: the bytes are not all in memory.
[[nodiscard]] std::optional<MappedBytes> fromMemory(const FileFetch& fetch, std::uint64_t offset,
                                                    std::uint64_t length);

// Reads from memory where the bytes are still there, else from the mapped cache file, which may
// wait for the disk. Errors as CachedFile::verified.
[[nodiscard]] Result<MappedBytes> fromMemoryOrDisk(const FileFetch& fetch, std::uint64_t offset,
                                                   std::uint64_t length);

// A copy of the bytes in one piece.
[[nodiscard]] MappedBytes copied(const MappedBytes& bytes);

// Notes that a reader got these bytes: buffers that were read to their end may serve others.
void noteTaken(MountShard& shard, const FileFetch& fetch, std::uint64_t offset,
               std::uint64_t length);

}  // namespace hearth
