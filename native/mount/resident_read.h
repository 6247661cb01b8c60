// Answers of reads whose bytes are here: in the memory where they came in, or in the cache file. A
// read is at most as long as a chunk, so it touches two at most. Any thread.
#pragma once

#include <optional>

#include "fetch/file_fetch.h"
#include "fuse/mount_source.h"
#include "mount/mount_ports.h"

namespace hearth {

// From memory, and nothing else: never blocks.
[[nodiscard]] std::optional<MappedBytes> fromMemory(const FileFetch& fetch, std::uint64_t offset,
                                                    std::uint64_t length);

// From memory where the bytes are still there, else from the mapped cache file, which may wait for
// the disk. Errors as CachedFile::verified.
[[nodiscard]] Result<MappedBytes> fromMemoryOrDisk(const FileFetch& fetch, std::uint64_t offset,
                                                   std::uint64_t length);

// The same bytes in memory of their own, in one piece.
[[nodiscard]] MappedBytes copied(const MappedBytes& bytes);

// Notes that a reader got these bytes: buffers that were read to their end are for others.
void noteTaken(MountShard& shard, const FileFetch& fetch, std::uint64_t offset,
               std::uint64_t length);

}  // namespace hearth
