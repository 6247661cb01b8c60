// All content keys that the cache knows, by shard, with their pins. Any thread: each shard's part
// has a mutex, held for look-ups only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cache_entry.h"
#include "cache/content_cache.h"

namespace hearth {

class KeyIndex {
 public:
  explicit KeyIndex(std::size_t shards) : parts_(shards) {}

  [[nodiscard]] std::shared_ptr<CacheEntry> find(const ContentKey& key) const;
  // False: the key is there already.
  bool insert(std::shared_ptr<CacheEntry> entry);

  // The open file of an entry, made by `make` when there is none. Null when the entry is going or
  // gone.
  [[nodiscard]] std::shared_ptr<OpenCacheFile> attach(
      const std::shared_ptr<CacheEntry>& entry,
      const std::function<std::shared_ptr<OpenCacheFile>()>& make);
  // The last user of an entry has gone: forgets the entry when it has nothing on the disk.
  void detach(const std::shared_ptr<CacheEntry>& entry);

  // Marks an entry as going. kEvicted: done, it cannot be opened now; else why not (kAbsent,
  // kPinned, kInUse).
  [[nodiscard]] EvictOutcome beginEviction(const std::shared_ptr<CacheEntry>& entry);
  void abandonEviction(const std::shared_ptr<CacheEntry>& entry);
  void erase(const std::shared_ptr<CacheEntry>& entry);

  void pin(const ContentKey& key, const std::string& owner);
  void unpin(const ContentKey& key, const std::string& owner);
  [[nodiscard]] bool pinned(const ContentKey& key) const;

  struct Usage {
    std::shared_ptr<CacheEntry> entry;
    bool inUse = false;
    bool pinned = false;
  };
  // All entries at some moment (of each part), except those that are going.
  [[nodiscard]] std::vector<Usage> usages() const;
  // All entries, those that are going included.
  [[nodiscard]] std::vector<std::shared_ptr<CacheEntry>> entries() const;

 private:
  struct Part {
    mutable std::mutex mutex;
    std::unordered_map<ContentKey, std::shared_ptr<CacheEntry>, ContentKeyHash> entries;
    std::unordered_map<ContentKey, std::set<std::string>, ContentKeyHash> pins;
  };
  [[nodiscard]] Part& partOf(const ContentKey& key) { return parts_[shardOf(key, parts_.size())]; }
  [[nodiscard]] const Part& partOf(const ContentKey& key) const {
    return parts_[shardOf(key, parts_.size())];
  }

  std::vector<Part> parts_;
};

}  // namespace hearth
