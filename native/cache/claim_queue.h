// Chunks that are written but not yet claimed in the residency log of one cache directory, with the
// open files to sync first. Any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cache/cache_entry.h"
#include "files/file_system.h"

namespace hearth {

struct PendingClaim {
  std::shared_ptr<CacheEntry> entry;
  std::uint32_t chunk = 0;
  std::shared_ptr<File> file;  // through which the chunk was written; synced on its shard
  std::size_t shard = 0;
};

// Cache files lie in 256 folders, by the first byte of their keys.
using FolderSet = std::bitset<256>;

class ClaimQueue {
 public:
  struct Backlog {
    std::uint64_t bytes = 0;
    std::size_t claims = 0;
  };

  // The backlog with the new claim in it.
  Backlog add(PendingClaim claim);
  // Claims of a file whose loss its owner bears: not in the backlog before release(). How many such
  // files wait.
  std::size_t addDeferred(std::vector<PendingClaim> claims, std::size_t folder);
  void release();
  // Puts back what could not be claimed this time.
  void restore(std::vector<PendingClaim> claims, const FolderSet& folders);
  // Forgets the claims of keys that are evicted.
  void forget(std::span<const std::shared_ptr<CacheEntry>> entries);
  // A cache file was made in this folder: its name must be durable before the next claim.
  void noteFolder(std::size_t folder);

  struct Batch {
    std::vector<PendingClaim> claims;
    FolderSet folders;
  };
  [[nodiscard]] Batch take();
  [[nodiscard]] Backlog backlog() const;

 private:
  mutable std::mutex mutex_;
  std::vector<PendingClaim> claims_;
  std::uint64_t bytes_ = 0;
  FolderSet folders_;
  std::vector<PendingClaim> deferred_;
  FolderSet deferredFolders_;
  std::size_t deferredFiles_ = 0;
};

}  // namespace hearth
