// One cache directory: its files, its residency log with the group commit, its budget.
//
//   objects/ab/<64 hex digits>   cache files        manifests/   views/   published/
//   residency.log                what is claimed    lock         flock and process id
//
// One reactor, the directory's home, does the commits and removals; members say who may call them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/cache_tuning.h"
#include "cache/claim_queue.h"
#include "cache/content_cache.h"
#include "cache/directory_recovery.h"
#include "cache/disk_health.h"
#include "cache/eviction_candidates.h"
#include "cache/key_index.h"
#include "cache/recent_refusal.h"
#include "cache/residency_log.h"
#include "cache/retraction_queue.h"
#include "cache/space_budget.h"
#include "files/watched_file_system.h"
#include "reactor/synchronization.h"

namespace hearth {

// The state of the residency log as open() found it.
struct DirectoryRecovery {
  ReplayReport replay;
  std::vector<ContentKey> doubtful;  // with chunks whose bytes must be looked at
};

// The disk of a cache directory.
struct CacheDisk {
  std::shared_ptr<DiskWatch> watch;  // null: the directory lies in memory, and nothing hangs
  FileSystem* files = nullptr;       // of the home shard, as they are without the watch
};

class CacheDirectory : public std::enable_shared_from_this<CacheDirectory> {
 public:
  // The shards' reactors and files and `index` must remain live while this object is used. `home`:
  // the shard, by its index, on which "home" calls are made.
  CacheDirectory(CacheDirectoryOptions options, std::vector<ShardContext> shards, std::size_t home,
                 KeyIndex& index, CacheTuning tuning, CacheDisk disk = {});

  // Home, first. Makes what is missing in the directory and locks it; kInUse names the process that
  // has it. Nothing is done when it is locked by this object.
  [[nodiscard]] Task<Status> takeLock();
  // Home, next. Tries what the file system can do, replays the log into the index and removes what
  // no record claims, except files for which `keep` is true (they stay, with nothing resident).
  // After an error none of its files is in the index, and it may be tried again.
  [[nodiscard]] Task<Status> open(std::function<bool(const ContentKey&)> keep);
  // Any thread. open() has succeeded.
  [[nodiscard]] bool isOpen() const { return open_.load(std::memory_order_acquire); }
  // Any shard, once. Commits, ends background work and releases the lock. Continues on `back`.
  [[nodiscard]] Task<void> close(Reactor& back);

  // Any thread.
  [[nodiscard]] const std::string& path() const { return options_.path; }
  [[nodiscard]] std::string objectPath(const ContentKey& key) const;
  [[nodiscard]] SpaceBudget& budget() { return budget_; }
  // Any thread, after open().
  [[nodiscard]] const DirectoryRecovery& recovery() const { return recovery_; }
  [[nodiscard]] RecentRefusal& refusal() { return refusal_; }
  // Any thread. New files may lie here: it is open, its disk takes writes, and it has not just
  // refused a chunk for want of room that no eviction could make.
  [[nodiscard]] bool accepts() const {
    return isOpen() && !health_.failing() && !changesHang() && !isFull();
  }
  // Any thread. Its disk hangs: reads of it, or changes alone.
  [[nodiscard]] bool readsHang() const {
    return disk_.watch != nullptr && disk_.watch->readsHang();
  }
  [[nodiscard]] bool changesHang() const {
    return disk_.watch != nullptr && disk_.watch->changesHang();
  }
  // Any thread. The index has forgotten the entry, which has a file here and begins again in
  // another directory. The file goes, and its room is free again, when the disk works.
  void noteAbandoned(const std::shared_ptr<CacheEntry>& entry);
  // Any thread. It has a file of the key that goes, so that no other may be made here.
  [[nodiscard]] bool hasAbandoned(const ContentKey& key) const;
  // Home. Before takeLock() is called again: false while calls of the disk still hang.
  [[nodiscard]] bool mayTryAgain();
  // Any thread. Why its disk takes no writes; empty: it does.
  [[nodiscard]] std::string failure() const;
  // Any thread. Its disk refused a write, for another reason than want of room. One that is open is
  // tried in the background until it takes a write again.
  void noteFailed(const Error& why);
  [[nodiscard]] const ShardContext& home() const { return shards_[home_]; }
  // Any thread. Queues the claim of a written chunk; it is committed in the background.
  void queueClaim(PendingClaim claim);
  // The claims of a whole new file of this entry, within CacheTuning::deferClaims, or with the next
  // commit() before.
  void deferClaims(const std::shared_ptr<CacheEntry>& entry, std::vector<PendingClaim> claims);
  // Any thread. A chunk was found bad and spoiled: the log gets it at once, in the background, and
  // again until that succeeds.
  void queueRetraction(std::shared_ptr<CacheEntry> entry, std::uint32_t chunk);
  // Any thread. A cache file was made: its folder is synced with the next commit, and it may go
  // when it is not in use any more.
  void noteCreated(const std::shared_ptr<CacheEntry>& entry);

  // Any shard; these continue on `back`.
  // Syncs what is written and claims it. An error is the log's, and leaves all of it queued. Chunks
  // whose files could not be synced are spoiled, and fail no other caller: whoever needs one
  // looks at its state. `unsynced`, unless null: why it was one of them, if there are any.
  [[nodiscard]] Task<Status> commit(Reactor& back, Status* unsynced = nullptr);
  // Commits when more is unclaimed than the tuning allows: bounds memory and open files.
  [[nodiscard]] Task<Status> throttle(Reactor& back);
  // The log claims this chunk, which is not resident, no longer: call before it is overwritten.
  [[nodiscard]] Task<Status> retract(std::shared_ptr<CacheEntry> entry, std::uint32_t chunk,
                                     Reactor& back);
  // Ends when the log claims nothing any more of what was queued as bad before.
  [[nodiscard]] Task<Status> settleRetractions(Reactor& back);

  // All of the entry is claimed and, from now on, verified (see CacheEntry); a digest of zeros: the
  // origin gave none. `generation`: the entry's, from before the file was looked at. kConflict:
  // something of it was spoiled since. kNotFound: it is not complete.
  [[nodiscard]] Task<Status> recordVerified(std::shared_ptr<CacheEntry> entry, Sha256Digest digest,
                                            std::uint64_t generation, Reactor& back);

  // The next so many of the entries that are being removed.
  using Gone = std::function<void(std::size_t count)>;
  // Home. Removes entries that the index has marked as going: a drop record, synced, then the
  // files. `gone`: called in the order of the entries, when their files are no more and before the
  // index forgets them, so before the keys can come again. On error nothing is removed and the
  // entries are still marked.
  [[nodiscard]] Task<Status> remove(std::vector<std::shared_ptr<CacheEntry>> entries, Gone gone);
  // Home. One eviction at a time: between choosing entries and having removed them.
  [[nodiscard]] Semaphore& evictions() { return evictions_; }
  // Home. For how long evictions have waited for other agents' answers, in all.
  [[nodiscard]] Clock::duration asked() const { return asked_; }
  void noteAsked(Clock::duration waited) { asked_ += waited; }
  // Home, with evictions() held.
  [[nodiscard]] EvictionCandidates& candidates(EvictionCandidates::Order order) {
    return order == EvictionCandidates::Order::kByUse ? byUse_ : asCopies_;
  }

 private:
  struct SyncBatch;
  // Does this on the home shard, alone with the log, and continues on `back`.
  [[nodiscard]] Task<Status> withLog(Task<Status> work, Reactor& back);
  [[nodiscard]] Task<Status> commitLocked(Status* unsynced);
  [[nodiscard]] Task<void> syncFiles(SyncBatch& batch);
  static Task<void> syncWorker(CacheDirectory& directory, SyncBatch& batch, std::size_t shard);
  [[nodiscard]] Task<Status> retractLocked();
  static Task<void> retractInBackground(CacheDirectory& directory);
  [[nodiscard]] Task<Status> syncFolders(const FolderSet& folders);
  [[nodiscard]] Task<Status> appendClaims(const std::vector<PendingClaim>& claims);
  [[nodiscard]] Task<Status> recordVerifiedLocked(CacheEntry& entry, Sha256Digest digest,
                                                  std::uint64_t generation);
  [[nodiscard]] Task<void> compactIfWorthwhile();
  [[nodiscard]] Task<Status> compact();
  // Parts of open().
  void restore(const ObjectFile& object, const ResidencyImage& image);
  [[nodiscard]] Task<Status> settleLog(const std::vector<ContentKey>& dropped);
  [[nodiscard]] bool isFull() const;
  [[nodiscard]] Task<Status> replay(std::function<bool(const ContentKey&)> keep);
  void forgetEntries();
  void tryInBackground();
  void tryLater();
  [[nodiscard]] Task<Status> removeAbandoned();
  static Task<void> tryWriting(CacheDirectory& directory);
  void schedule();
  void commitLater();
  static Task<void> commitInBackground(CacheDirectory& directory);

  const CacheDirectoryOptions options_;
  const std::vector<ShardContext> shards_;
  const std::size_t home_;
  KeyIndex& index_;
  const CacheTuning tuning_;
  const CacheDisk disk_;
  const std::unique_ptr<WatchedFileSystem> trialFiles_;  // null: those of the home shard
  SpaceBudget budget_;
  DirectoryRecovery recovery_;
  std::atomic<bool> open_{false};
  DiskHealth health_;
  RecentRefusal refusal_;
  ClaimQueue queue_;
  RetractionQueue retractions_;
  std::atomic<bool> scheduled_{false};
  std::atomic<bool> trying_{false};  // a disk that failed, in the background
  mutable std::mutex abandonedMutex_;
  std::vector<std::shared_ptr<CacheEntry>> abandoned_;

  // Home only.
  Semaphore commits_;  // guards the log: commits, removals and retractions, one at a time
  Semaphore evictions_;
  EvictionCandidates byUse_;
  EvictionCandidates asCopies_;
  Clock::duration asked_{};
  Gate background_;
  Reactor::Timer commitTimer_;
  Reactor::Timer retractTimer_;
  Reactor::Timer retryTimer_;  // while its disk fails
  Reactor::Timer deferTimer_;
  std::unique_ptr<File> lock_;
  std::unique_ptr<ResidencyLog> log_;
  bool committingInBackground_ = false;
  std::uint64_t liveLogBytes_ = 0;  // of records that a compaction would keep
};

}  // namespace hearth
