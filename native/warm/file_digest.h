// SHA-256 of a complete cache file, and comparing it with its origin.
#pragma once

#include <functional>
#include <memory>

#include "base/sha256.h"
#include "fetch/buffer_pool.h"
#include "fetch/file_fetch.h"
#include "fetch/node_limits.h"
#include "origin/origin_client.h"

namespace hearth {

// Hashes on the threads of `pool`, a chunk at a time, so that many large files share them; block
// checksums are checked on the way. kNotFound when not complete. Continues on `reactor`, the
// caller's. `disk`: the node's, within which it reads. `hashed` grows by the bytes that were
// hashed, as they are; null: not counted. `wanted` is asked before each chunk and while that waits
// for the disk's limit: kCancelled when it is not any more.
[[nodiscard]] Task<Result<Sha256Digest>> digestOf(
    Reactor& reactor, ThreadPool& pool, BandwidthLimiter& disk, std::shared_ptr<CachedFile> file,
    std::atomic<std::uint64_t>* hashed = nullptr,
    std::function<bool()> wanted = [] { return true; });

// Reads the origin's bytes again, into `buffers` and within `limits`, and compares every one with
// the cache. On the key's shard, whose all of these are. Bytes compared; kCorrupt with the offset
// of the first difference.
[[nodiscard]] Task<Result<std::uint64_t>> compareWithOrigin(Reactor& reactor, OriginClient& origin,
                                                            BufferPool& buffers, NodeLimits& limits,
                                                            std::shared_ptr<FileFetch> fetch);

}  // namespace hearth
