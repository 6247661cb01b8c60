#include "cache/cache_directory.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "cache/directory_layout.h"
#include "cache/entry_records.h"

namespace hearth {
namespace {

// Syncs under way at once: enough for the file system to put them into one journal commit.
constexpr std::size_t kSyncsPerShard = 32;
// Limit of files deleted in one step, so that a caller waits for a bounded number.
constexpr std::size_t kForgottenTogether = 64;
// Written to find out whether a disk that failed takes writes again.
constexpr std::string_view kTrialName = "trial";

}  // namespace

// Files to sync, each once, by shard.
struct CacheDirectory::SyncBatch {
  struct Item {
    std::shared_ptr<File> file;
    Status synced;
  };
  struct Shard {
    std::vector<Item> items;
    std::size_t next = 0;  // touched on the shard only
  };
  explicit SyncBatch(std::size_t count) : shards(count) {}
  std::vector<Shard> shards;
};

CacheDirectory::CacheDirectory(CacheDirectoryOptions options, std::vector<ShardContext> shards,
                               std::size_t home, KeyIndex& index, CacheTuning tuning,
                               CacheDisk disk)
    : options_(std::move(options)),
      shards_(std::move(shards)),
      home_(home),
      index_(index),
      tuning_(tuning),
      disk_(std::move(disk)),
      trialFiles_(disk_.watch == nullptr ? nullptr
                                         : std::make_unique<WatchedFileSystem>(
                                               shards_[home].reactor, *disk_.files,
                                               std::vector<std::shared_ptr<DiskWatch>>{disk_.watch},
                                               WatchedFileSystem::Purpose::kTrial)),
      budget_(options_.budgetBytes, options_.freeFloorBytes),
      commits_(shards_[home].reactor, 1),
      evictions_(shards_[home].reactor, 1),
      byUse_(index, *this, EvictionCandidates::Order::kByUse),
      asCopies_(index, *this, EvictionCandidates::Order::kAsCopies),
      background_(shards_[home].reactor),
      commitTimer_(shards_[home].reactor),
      retractTimer_(shards_[home].reactor),
      retryTimer_(shards_[home].reactor),
      deferTimer_(shards_[home].reactor) {
  if (disk_.watch != nullptr) disk_.watch->setStall(std::max(options_.stall, tuning_.stallAtOpen));
}

std::string CacheDirectory::objectPath(const ContentKey& key) const {
  return options_.path + "/objects/" + folderName(key.bytes[0]) + "/" + key.hex();
}

std::string CacheDirectory::failure() const {
  return changesHang() ? disk_.watch->error().message : health_.failure();
}

bool CacheDirectory::mayTryAgain() {
  if (!changesHang()) return true;
  if (!disk_.watch->beginTrial()) return false;
  disk_.watch->endTrial(true);
  return true;
}

Task<Status> CacheDirectory::takeLock() {
  if (lock_ != nullptr) co_return Status();
  const Status made = co_await makeLayout(home().files, path());
  if (!made.ok()) co_return made;
  auto locked = co_await lockDirectory(home().files, path());
  if (!locked.ok()) co_return locked.error();
  lock_ = std::move(*locked);
  co_return Status();
}

Task<void> CacheDirectory::close(Reactor& back) {
  co_await home().reactor.enter();
  commitTimer_.cancel();
  retractTimer_.cancel();
  retryTimer_.cancel();
  deferTimer_.cancel();
  co_await background_.close();
  if (log_) {
    co_await commits_.acquire(1);
    queue_.release();
    // The next open removes claims that cannot be written now.
    (void)co_await commitLocked(nullptr);
    commits_.release(1);
  }
  log_.reset();
  lock_.reset();
  if (disk_.watch != nullptr) {
    disk_.watch->setObserver(nullptr);
    // Calls that nobody waits for use the reactors.
    while (!disk_.watch->isIdle()) co_await home().reactor.sleep(DiskWatch::kLook);
  }
  co_await back.enter();
}

void CacheDirectory::noteCreated(const std::shared_ptr<CacheEntry>& entry) {
  queue_.noteFolder(entry->key.bytes[0]);
  byUse_.noteMade(entry);
  asCopies_.noteMade(entry);
}

void CacheDirectory::queueClaim(PendingClaim claim) {
  const ClaimQueue::Backlog backlog = queue_.add(std::move(claim));
  const bool full = backlog.bytes >= tuning_.commitBytes || backlog.claims >= tuning_.commitClaims;
  if (scheduled_.exchange(true) && !full) return;
  home().reactor.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->schedule();
  });
}

void CacheDirectory::deferClaims(const std::shared_ptr<CacheEntry>& entry,
                                 std::vector<PendingClaim> claims) {
  byUse_.noteMade(entry);
  asCopies_.noteMade(entry);
  const std::size_t waiting = queue_.addDeferred(std::move(claims), entry->key.bytes[0]);
  const bool full = waiting >= tuning_.mostDeferred;
  if (waiting > 1 && !full) return;
  home().reactor.post([weak = weak_from_this(), full] {
    const auto self = weak.lock();
    if (self == nullptr || self->background_.closed()) return;
    const auto release = [directory = self.get()] {
      directory->queue_.release();
      directory->schedule();
    };
    if (full) return release();
    self->deferTimer_.start(Clock::now() + self->tuning_.deferClaims, release);
  });
}

void CacheDirectory::schedule() {
  // The one that runs looks at the backlog when it ends.
  if (background_.closed() || committingInBackground_) return;
  const ClaimQueue::Backlog backlog = queue_.backlog();
  if (backlog.bytes >= tuning_.commitBytes || backlog.claims >= tuning_.commitClaims) {
    commitTimer_.cancel();
    background_.spawn(commitInBackground(*this));
  } else {
    commitLater();
  }
}

void CacheDirectory::commitLater() {
  commitTimer_.start(Clock::now() + tuning_.commitDelay,
                     [this] { background_.spawn(commitInBackground(*this)); });
}

Task<void> CacheDirectory::commitInBackground(CacheDirectory& directory) {
  if (directory.committingInBackground_) co_return;
  directory.committingInBackground_ = true;
  co_await directory.commits_.acquire(1);
  const Status done = co_await directory.commitLocked(nullptr);
  directory.commits_.release(1);
  directory.committingInBackground_ = false;
  // In this order: whoever queues a claim now either sees the flag and calls schedule(), or is seen
  // here.
  directory.scheduled_ = false;
  if (directory.queue_.backlog().claims == 0) co_return;
  directory.scheduled_ = true;
  if (done.ok()) {
    directory.schedule();
  } else {
    directory.commitLater();
  }
}

bool CacheDirectory::isFull() const {
  const bool refused = refusal_.applies(kChunkBytes) && refusal_.outOfSpace();
  return refused && !refusal_.isStale(Clock::now()) && budget_.deficit(kChunkBytes) != 0;
}

void CacheDirectory::noteFailed(const Error& why) {
  health_.failed(why);
  if (isOpen()) tryInBackground();
}

void CacheDirectory::noteAbandoned(const std::shared_ptr<CacheEntry>& entry) {
  if (entry->charged == 0 && !entry->everClaimed()) return;
  {
    const std::lock_guard lock(abandonedMutex_);
    abandoned_.push_back(entry);
  }
  tryInBackground();
}

bool CacheDirectory::hasAbandoned(const ContentKey& key) const {
  const std::lock_guard lock(abandonedMutex_);
  return std::ranges::any_of(abandoned_, [&key](const auto& entry) { return entry->key == key; });
}

Task<Status> CacheDirectory::removeAbandoned() {
  std::vector<std::shared_ptr<CacheEntry>> entries;
  {
    const std::lock_guard lock(abandonedMutex_);
    entries = abandoned_;
  }
  if (entries.empty()) co_return Status();
  Gone gone = [](std::size_t) {};
  const Status removed = co_await remove(entries, std::move(gone));
  if (!removed.ok()) co_return removed;
  const std::lock_guard lock(abandonedMutex_);
  abandoned_.erase(abandoned_.begin(),
                   abandoned_.begin() + static_cast<std::ptrdiff_t>(entries.size()));
  co_return Status();
}

void CacheDirectory::tryInBackground() {
  if (trying_.exchange(true)) return;
  home().reactor.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tryLater();
  });
}

void CacheDirectory::tryLater() {
  if (background_.closed()) return;
  retryTimer_.start(Clock::now() + tuning_.retryDisk,
                    [this] { background_.spawn(tryWriting(*this)); });
}

Task<void> CacheDirectory::tryWriting(CacheDirectory& directory) {
  DiskWatch* const watch = directory.disk_.watch.get();
  // Calls of it that hang have not ended yet.
  if (watch != nullptr && !watch->beginTrial()) co_return directory.tryLater();
  FileSystem& files =
      directory.trialFiles_ != nullptr ? *directory.trialFiles_ : directory.home().files;
  Status works = co_await replaceFile(files, directory.path(), std::string(kTrialName),
                                      std::vector<std::byte>(kAllocationBytes));
  if (works.ok()) works = co_await files.unlink(directory.path() + "/" + std::string(kTrialName));
  if (watch != nullptr) watch->endTrial(works.code() != ErrorCode::kUnavailable);
  if (works.ok()) works = co_await directory.removeAbandoned();
  // A full disk works.
  if (works.ok() || works.code() == ErrorCode::kOutOfSpace) {
    directory.trying_ = false;
    directory.health_.works();
    directory.refusal_.stored(std::numeric_limits<std::uint64_t>::max());
  } else {
    directory.health_.failed(works.error());
    directory.tryLater();
  }
}

Task<Status> CacheDirectory::withLog(Task<Status> work, Reactor& back) {
  co_await home().reactor.enter();
  co_await commits_.acquire(1);
  Status done = co_await work;
  commits_.release(1);
  co_await back.enter();
  co_return done;
}

Task<Status> CacheDirectory::commit(Reactor& back, Status* unsynced) {
  queue_.release();
  return withLog(commitLocked(unsynced), back);
}

Task<Status> CacheDirectory::throttle(Reactor& back) {
  const ClaimQueue::Backlog backlog = queue_.backlog();
  if (backlog.bytes < tuning_.mostBytes && backlog.claims < tuning_.mostClaims) co_return Status();
  co_return co_await commit(back);
}

Task<Status> CacheDirectory::commitLocked(Status* unsynced) {
  // Before anything is reported as claimed.
  const Status retracted = co_await retractLocked();
  if (!retracted.ok()) co_return retracted;
  ClaimQueue::Batch batch = queue_.take();
  // Spoiled chunks lose their claim; one that is being rewritten will be queued again. What is
  // resident here was written before the sync below.
  std::erase_if(batch.claims, [](const PendingClaim& claim) {
    return claim.entry->state(claim.chunk) != ChunkState::kResident;
  });
  if (batch.claims.empty()) {
    queue_.restore({}, batch.folders);
    co_return Status();
  }
  SyncBatch syncs(shards_.size());
  std::unordered_map<const File*, std::pair<std::size_t, std::size_t>> places;
  for (const PendingClaim& claim : batch.claims) {
    auto& items = syncs.shards[claim.shard].items;
    if (places.emplace(claim.file.get(), std::pair(claim.shard, items.size())).second) {
      items.push_back({claim.file, {}});
    }
  }
  co_await syncFiles(syncs);

  std::vector<PendingClaim> good, waiting;
  for (PendingClaim& claim : batch.claims) {
    const auto [shard, item] = places.at(claim.file.get());
    const Status& synced = syncs.shards[shard].items[item].synced;
    if (synced.ok()) {
      good.push_back(std::move(claim));
    } else if (synced.code() == ErrorCode::kUnavailable) {
      // The disk hangs, and has lost nothing.
      waiting.push_back(std::move(claim));
      if (unsynced != nullptr) *unsynced = synced;
    } else {
      // The kernel may have dropped the pages that it could not write, and reports that only once.
      claim.entry->spoil(claim.chunk);
      noteFailed(synced.error());
      if (unsynced != nullptr) *unsynced = synced;
    }
  }
  if (!waiting.empty()) queue_.restore(std::move(waiting), {});
  Status claimed = co_await syncFolders(batch.folders);
  if (claimed.ok()) {
    claimed = co_await appendClaims(good);
    batch.folders.reset();
  }
  if (!claimed.ok()) {
    if (claimed.code() != ErrorCode::kOutOfSpace) noteFailed(claimed.error());
    queue_.restore(std::move(good), batch.folders);
    co_return claimed;
  }
  for (const PendingClaim& claim : good) claim.entry->markClaimed(claim.chunk);
  co_await compactIfWorthwhile();
  co_return Status();
}

Task<void> CacheDirectory::syncFiles(SyncBatch& batch) {
  Gate workers(home().reactor);
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    const std::size_t count = std::min(kSyncsPerShard, batch.shards[shard].items.size());
    for (std::size_t i = 0; i < count; ++i) workers.spawn(syncWorker(*this, batch, shard));
  }
  co_await workers.close();
}

Task<void> CacheDirectory::syncWorker(CacheDirectory& directory, SyncBatch& batch,
                                      std::size_t shard) {
  co_await directory.shards_[shard].reactor.enter();
  SyncBatch::Shard& mine = batch.shards[shard];
  while (mine.next < mine.items.size()) {
    SyncBatch::Item& item = mine.items[mine.next++];
    item.synced = co_await item.file->syncData();
  }
  co_await directory.home().reactor.enter();
}

Task<Status> CacheDirectory::syncFolders(const FolderSet& folders) {
  for (std::size_t folder = 0; folder < folders.size(); ++folder) {
    if (!folders.test(folder)) continue;
    const Status synced =
        co_await home().files.syncDirectory(path() + "/objects/" + folderName(folder));
    if (!synced.ok()) co_return synced;
  }
  co_return Status();
}

Task<Status> CacheDirectory::appendClaims(const std::vector<PendingClaim>& claims) {
  if (claims.empty()) co_return Status();
  std::vector<std::byte> records;
  for (const PendingClaim& claim : claims) {
    claim.entry->noteClaim();
    appendRecord(records, claimOf(*claim.entry, claim.chunk));
  }
  const Status appended = co_await log_->append(records);
  if (appended.ok()) liveLogBytes_ += records.size();
  co_return appended;
}

Task<Status> CacheDirectory::remove(std::vector<std::shared_ptr<CacheEntry>> entries, Gone gone) {
  co_await commits_.acquire(1);
  std::vector<std::byte> drops;
  for (const auto& entry : entries) {
    if (entry->everClaimed()) appendRecord(drops, {.type = RecordType::kDrop, .key = entry->key});
  }
  Status dropped;
  if (!drops.empty()) dropped = co_await log_->append(drops);
  if (!dropped.ok()) {
    commits_.release(1);
    co_return dropped;
  }
  queue_.forget(entries);
  retractions_.forget(entries);
  for (std::size_t next = 0; next < entries.size();) {
    const std::span some =
        std::span(entries).subspan(next, std::min(entries.size() - next, kForgottenTogether));
    for (const auto& entry : some) {
      for (std::uint32_t chunk = 0; chunk < entry->chunkCount(); ++chunk) {
        if (entry->state(chunk) != ChunkState::kClaimed) continue;
        liveLogBytes_ -= std::min(liveLogBytes_, claimBytes(*entry, chunk));
      }
      const Status unlinked = co_await home().files.unlink(objectPath(entry->key));
      // A file that stays keeps its charge; the next open of the directory tries again.
      if (unlinked.ok() || unlinked.code() == ErrorCode::kNotFound) budget_.release(entry->charged);
    }
    gone(some.size());
    for (const auto& entry : some) index_.erase(entry);
    next += some.size();
  }
  commits_.release(1);
  co_return Status();
}

}  // namespace hearth
