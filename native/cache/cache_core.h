// State that the parts of one content cache share. ContentCache::open makes it; open files keep it
// alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/evictor.h"
#include "cache/key_index.h"
#include "cache/unverified_chunk_scanner.h"
#include "cache/view_store.h"
#include "files/watched_file_system.h"

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
  // `disks`: of the directories that lie on disks.
  explicit CacheCore(const std::vector<ShardContext>& contexts,
                     const std::vector<std::shared_ptr<DiskWatch>>& disks = {})
      : files(watched(contexts, disks)),
        shards(withFiles(contexts, files)),
        index(shards.size()),
        views(*this),
        evictor(*this),
        scanner(*this) {}

  // The shard whose thread this is; callers of "any shard" functions are on one.
  [[nodiscard]] const ShardContext& here() const { return shards[indexHere()]; }
  [[nodiscard]] WatchedFileSystem& filesHere() const { return *files[indexHere()]; }

  // By shard. No wait for a call of them outlasts a disk that hangs.
  const std::vector<std::unique_ptr<WatchedFileSystem>> files;
  const std::vector<ShardContext> shards;
  KeyIndex index;
  std::vector<std::shared_ptr<CacheDirectory>> directories;
  CacheCounters counters;
  std::atomic<ClusterCopies*> copies{nullptr};  // as ContentCache::setClusterCopies
  ViewStore views;
  Evictor evictor;
  UnverifiedChunkScanner scanner;

 private:
  [[nodiscard]] std::size_t indexHere() const;
  static std::vector<std::unique_ptr<WatchedFileSystem>> watched(
      const std::vector<ShardContext>& contexts,
      const std::vector<std::shared_ptr<DiskWatch>>& disks) {
    std::vector<std::unique_ptr<WatchedFileSystem>> all;
    for (const ShardContext& shard : contexts)
      all.push_back(std::make_unique<WatchedFileSystem>(shard.reactor, shard.files, disks));
    return all;
  }
  static std::vector<ShardContext> withFiles(
      const std::vector<ShardContext>& contexts,
      const std::vector<std::unique_ptr<WatchedFileSystem>>& files) {
    std::vector<ShardContext> all;
    for (std::size_t i = 0; i < contexts.size(); ++i)
      all.push_back({contexts[i].reactor, *files[i]});
    return all;
  }
};

}  // namespace hearth
