// Makes room: chooses whole keys by last use, never one that is in use, pinned or published, and
// removes them with the views that link them.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/content_cache.h"

namespace hearth {

struct CacheCore;

class Evictor {
 public:
  // `core` must remain live while this object is used.
  explicit Evictor(CacheCore& core) : core_(core) {}

  // Any shard; continues on `back`. Reserves in the directory's budget, evicting others first if
  // needed. kOutOfSpace, with what is used, pinned and in use, when nothing may go.
  [[nodiscard]] Task<Status> reserve(CacheDirectory& directory, std::uint64_t bytes,
                                     const ShardContext& back);
  // As ContentCache::evict; continues on `back`.
  [[nodiscard]] Task<Result<EvictOutcome>> evict(ContentKey key, Reactor& back);
  // Waits until the evictions that are going on in this directory have ended; continues on `back`.
  [[nodiscard]] Task<void> settle(CacheDirectory& directory, Reactor& back);

 private:
  using Entries = std::vector<std::shared_ptr<CacheEntry>>;

  // These on the directory's home, with its evictions() held.
  [[nodiscard]] Task<Status> makeRoom(CacheDirectory& directory, std::uint64_t bytes);
  [[nodiscard]] Entries choose(CacheDirectory& directory, std::uint64_t bytes);
  void findCandidates(CacheDirectory& directory, std::vector<EvictionCandidate>& candidates) const;
  // `removed`: how many went; others were published meanwhile.
  [[nodiscard]] Task<Result<std::size_t>> removeMarked(CacheDirectory& directory, Entries entries);
  [[nodiscard]] static Task<Status> measure(CacheDirectory& directory, FileSystem& files);
  [[nodiscard]] Error outOfSpace(CacheDirectory& directory, std::uint64_t bytes) const;

  CacheCore& core_;
};

}  // namespace hearth
