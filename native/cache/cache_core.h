// State that the parts of one content cache share. ContentCache::open makes it; open files keep it
// alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/doubt_examiner.h"
#include "cache/evictor.h"
#include "cache/key_index.h"
#include "cache/view_store.h"

namespace hearth {

struct CacheCounters {
  std::atomic<std::uint64_t> corruptBlocks{0};
  std::atomic<std::uint64_t> evictedFiles{0};
  std::atomic<std::uint64_t> evictedBytes{0};
  // Of the files evicted for room, by CopyVerdict; and how often one stayed as the last copy.
  std::atomic<std::uint64_t> redundantCopies{0}, lastCopies{0}, unansweredCopies{0};
  std::atomic<std::uint64_t> unaskedCopies{0};
  std::atomic<std::uint64_t> lastCopiesKept{0};
};

// Milliseconds since the epoch. Any thread.
[[nodiscard]] std::int64_t wallClockMs();

struct CacheCore : std::enable_shared_from_this<CacheCore> {
  explicit CacheCore(std::vector<ShardContext> contexts)
      : shards(std::move(contexts)),
        index(shards.size()),
        views(*this),
        evictor(*this),
        examiner(*this) {}

  // The shard whose thread this is; callers of "any shard" functions are on one.
  [[nodiscard]] const ShardContext& here() const;

  const std::vector<ShardContext> shards;
  KeyIndex index;
  std::vector<std::shared_ptr<CacheDirectory>> directories;
  CacheCounters counters;
  std::atomic<ClusterCopies*> copies{nullptr};  // as ContentCache::setClusterCopies
  ViewStore views;
  Evictor evictor;
  DoubtExaminer examiner;
};

}  // namespace hearth
