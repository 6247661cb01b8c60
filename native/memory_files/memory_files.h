// Whole cache files that also stand in memory: a tmpfs that the mount holder owns, where
// applications read them by passthrough at memory speed, and other agents and clients by the
// engine's mapping. A memory file is a copy of a cache file that was complete and, where its origin
// gives a digest, compared with it; only whole files are found, and whole files go.
//
// The files are those of a ContentCache whose one directory lies in the tmpfs, so its residency log
// tells the next agent which of them are whole. Errors of memory fail no read: readers then have
// the disk.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/owned_fd.h"
#include "cache/content_cache.h"
#include "memory_files/memory_room.h"
#include "reactor/reactor.h"

namespace hearth {

class ChargedFileSystem;

struct MemoryFilesOptions {
  // A folder of a tmpfs; made when it is missing.
  std::string path;
  // For whole files. The tmpfs has room for kOverheadBytes more.
  std::uint64_t budgetBytes = 0;
  // Takes the pages of a file before they are written (ChargedFileSystem::TakeRoom).
  std::function<Result<std::uint64_t>(int descriptor, std::uint64_t offset, std::uint64_t bytes)>
      takeRoom;
  // Keeps the tmpfs while files are open.
  std::shared_ptr<const void> keep;
  // Why the files do not lie in huge pages though they should; empty: they do.
  std::string noHugePages;
};

struct MemoryFilesUse {
  MemoryRoom::Use room;
  std::uint64_t evictedFiles = 0, evictedBytes = 0;
  std::uint64_t heldFiles = 0;     // that eviction left, because a program has them open or mapped
  std::uint64_t refusedFiles = 0;  // for which there was no room
  std::string off;                 // why there are no memory files; empty: there are
  // Of the last file that could not be brought; empty: none since one was.
  std::string failure;
  std::string noHugePages;
};

class MemoryFiles {
 public:
  // The residency log, and folders, of a tmpfs of the budget's size.
  static constexpr std::uint64_t kOverheadBytes = std::uint64_t{64} << 20;
  // The daemon reads smaller files, from its own memory and the page cache.
  static constexpr std::uint64_t kFromBytes = std::uint64_t{128} << 10;
  // Files that stay open, each with a descriptor and a mapping.
  static constexpr std::size_t kMaxOpen = 1024;

  // No memory files, though so much memory was asked for, for the reason `off`.
  MemoryFiles(std::string off, std::uint64_t budgetBytes);
  // On the home shard, whose context is the first. Takes over the whole files that an earlier agent
  // has left; what it had not completed is removed. What `shards` refer to must remain live while
  // the result is used.
  [[nodiscard]] static Task<Result<std::unique_ptr<MemoryFiles>>> open(
      MemoryFilesOptions options, std::vector<ShardContext> shards);
  ~MemoryFiles();
  // Home shard. The files stay for the next agent.
  [[nodiscard]] Task<void> close();

  // Any thread.
  [[nodiscard]] bool enabled() const { return cache_ != nullptr; }
  // Of the folder, in this process.
  [[nodiscard]] const std::string& path() const { return options_.path; }
  // All of the file is in memory.
  [[nodiscard]] bool has(const ContentKey& key) const;
  // All of the file is in memory, or it is being brought there.
  [[nodiscard]] bool hasRoom(const ContentKey& key) const { return room_.has(key); }
  // A file that is in memory is wanted with this rank, too.
  void raise(const ContentKey& key, MemoryRank rank);
  // The file, which stays while the pointer lives; null unless all of it is in memory. Counts as a
  // use.
  [[nodiscard]] std::shared_ptr<CachedFile> find(const ContentKey& key);
  [[nodiscard]] MemoryFilesUse use() const;
  // A pinned file that is in memory stays there (ContentCache::pin).
  void pin(const ContentKey& key, const std::string& owner) {
    if (cache_ != nullptr) cache_->pin(key, owner);
  }
  void unpin(const ContentKey& key, const std::string& owner) {
    if (cache_ != nullptr) cache_->unpin(key, owner);
  }

  // The following on the key's shard; they continue there.
  struct Wish {
    ContentKey key;
    std::uint64_t size = 0;
    bool executable = false;
    MemoryRank rank = MemoryRank::kUse;
    Clock::time_point since;  // as MemoryRoom::Claim::since
  };
  // Room for a file that is to be filled, with the file; others go for it. kOutOfSpace.
  [[nodiscard]] Task<Result<std::shared_ptr<CachedFile>>> reserve(Wish wish);
  // Every chunk was written: the file is found from now on.
  [[nodiscard]] Task<Status> publish(std::shared_ptr<CachedFile> file, Sha256Digest digest);
  // The file was not filled, for this reason.
  [[nodiscard]] Task<void> abandon(std::shared_ptr<CachedFile> file, Error why);
  // On any shard. False: the file is not in memory, or stays, because a program has it open or
  // mapped.
  [[nodiscard]] Task<bool> evict(ContentKey key);

 private:
  MemoryFiles(MemoryFilesOptions options, std::vector<ShardContext> shards);
  [[nodiscard]] Task<Status> openCache();
  [[nodiscard]] Task<Status> adopt();
  [[nodiscard]] std::vector<ShardContext> chargedShards();
  [[nodiscard]] Result<std::uint64_t> takeRoom(int descriptor, std::uint64_t offset,
                                               std::uint64_t bytes);
  // The reactor of the shard whose thread this is.
  [[nodiscard]] Reactor& here() const;
  // A program has the file open or mapped, or the kernel cannot say. Blocks for a path look-up.
  [[nodiscard]] bool heldByPrograms(const ContentKey& key) const;
  void letGo(const ContentKey& key);
  // Keeps the file's rank for the next agent.
  void noteRank(const ContentKey& key, MemoryRank rank) const;
  void noteFailure(std::string message);

  const MemoryFilesOptions options_;
  const std::string off_;
  const std::vector<ShardContext> shards_;
  MemoryRoom room_;
  ThreadPool blocking_{{.threads = 2}};  // calls of the holder
  std::vector<std::unique_ptr<ChargedFileSystem>> files_;
  std::unique_ptr<ContentCache> cache_;
  std::atomic<std::uint64_t> evictedFiles_{0}, evictedBytes_{0}, heldFiles_{0}, refusedFiles_{0};
  mutable std::mutex mutex_;  // guards all below
  std::string failure_;
  // Files that were found lately: their mappings serve the next readers.
  std::unordered_map<ContentKey, std::shared_ptr<CachedFile>, ContentKeyHash> open_;
};

}  // namespace hearth
