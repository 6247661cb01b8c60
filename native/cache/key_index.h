// All content keys that the cache knows, by shard, with their pins. Any thread: each shard's part
// has a mutex, held for look-ups only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cache_entry.h"
#include "cache/content_cache.h"

namespace hearth {

class KeyIndex {
 public:
  class Settled;  // NOLINT(cppcoreguidelines-virtual-class-destructor): never deleted

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

  // Forgets an entry that nobody has open, whatever of it is on the disk. False: it is in use, or
  // going.
  bool abandon(const std::shared_ptr<CacheEntry>& entry);

  // Marks an entry as going. kEvicted: done, it cannot be opened now; else why not (kAbsent,
  // kPinned, kInUse).
  [[nodiscard]] EvictOutcome beginEviction(const std::shared_ptr<CacheEntry>& entry);
  void abandonEviction(const std::shared_ptr<CacheEntry>& entry);
  void erase(const std::shared_ptr<CacheEntry>& entry);
  // Awaitable, on the thread of `here`: ends when `entry` is not going, or has gone. Who makes room
  // asks other agents before an entry is marked, so what is waited for is the disk.
  [[nodiscard]] Settled settled(std::shared_ptr<CacheEntry> entry, Reactor& here);

  void pin(const ContentKey& key, const std::string& owner);
  void unpin(const ContentKey& key, const std::string& owner);
  [[nodiscard]] bool pinned(const ContentKey& key) const;

  struct Usage {
    std::shared_ptr<CacheEntry> entry;
    bool inUse = false;
    bool pinned = false;
  };
  // Of an entry; nothing when it is going or gone.
  [[nodiscard]] std::optional<Usage> usage(const std::shared_ptr<CacheEntry>& entry) const;
  // All entries at some moment (of each part), except those that are going.
  [[nodiscard]] std::vector<Usage> usages() const;
  // All entries, those that are going included.
  [[nodiscard]] std::vector<std::shared_ptr<CacheEntry>> entries() const;

 private:
  struct Part {
    mutable std::mutex mutex;
    std::unordered_map<ContentKey, std::shared_ptr<CacheEntry>, ContentKeyHash> entries;
    std::unordered_map<ContentKey, std::set<std::string>, ContentKeyHash> pins;
    std::vector<Settled*> settling;  // who waits for an entry that is going
  };
  // These wait for the entry no more.
  static void resume(std::vector<Settled*> waiters);
  [[nodiscard]] static std::vector<Settled*> takeWaiters(Part& part, const CacheEntry& entry);
  [[nodiscard]] Part& partOf(const ContentKey& key) { return parts_[shardOf(key, parts_.size())]; }
  [[nodiscard]] const Part& partOf(const ContentKey& key) const {
    return parts_[shardOf(key, parts_.size())];
  }

  std::vector<Part> parts_;
};

class [[nodiscard]] KeyIndex::Settled final : public Posted {
 public:
  Settled(KeyIndex& index, std::shared_ptr<CacheEntry> entry, Reactor& here)
      : index_(index), entry_(std::move(entry)), here_(here) {}

  bool await_ready() const noexcept { return false; }
  // False: there is nothing to wait for.
  bool await_suspend(std::coroutine_handle<> handle);
  void await_resume() const noexcept {}
  void run() override { awaiter_.resume(); }

 private:
  friend KeyIndex;
  KeyIndex& index_;
  const std::shared_ptr<CacheEntry> entry_;
  Reactor& here_;
  std::coroutine_handle<> awaiter_;
};

}  // namespace hearth
