// Reads that a reader waits for: from memory, from the cache file, or else from peers or the
// origin. They end as soon as the bytes are in memory, so they neither wait for room in the cache
// nor fail when there is none.
#pragma once

#include "fetch/fetcher.h"
#include "fuse/mount_source.h"

namespace hearth {

// On the key's shard, to which the arguments belong. Reads at most kChunkBytes from inside the
// file. A waiting read holds no buffers: reads that each held one and waited for another could wait
// for ever. `wanted`: as for Fetcher::arrive. Errors: those of Fetcher::arrive, and kCorrupt from a
// disk on which blocks go bad again and again.
[[nodiscard]] Task<Result<MappedBytes>> readOnDemand(Reactor& reactor, Fetcher& fetcher,
                                                     std::shared_ptr<FileFetch> fetch,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     StillWanted wanted = nullptr);

}  // namespace hearth
