#include "cache/content_cache.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>
#include <tuple>

#include "base/clock.h"
#include "cache/cache_core.h"
#include "cache/open_cache_file.h"
#include "cache/open_content_cache.h"

namespace hearth {
namespace {

// The largest file of ext4 with 4 KiB blocks.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 40;
// Files that wait for a disk and are named.
constexpr std::uint64_t kNamedFiles = 16;
// For calls of one disk that block.
constexpr std::size_t kThreadsPerShard = 4;

void noteRecovery(std::vector<std::string>& notes, const std::string& path,
                  const DirectoryRecovery& recovery) {
  for (const ReplayReport::Loss& loss : recovery.replay.losses) {
    notes.push_back("residency log of " + path + ": " + std::to_string(loss.bytes) +
                    " bytes at offset " + std::to_string(loss.offset) + ", after " +
                    std::to_string(loss.recordsBefore) + " records, were left out: " + loss.reason +
                    (loss.torn ? ", as a crash leaves it; nothing relied on them"
                               : "; check the disk. What was claimed before is checked against "
                                 "the files"));
  }
  if (!recovery.doubtful.empty()) {
    notes.push_back("cache directory " + path + ": " + std::to_string(recovery.doubtful.size()) +
                    " files may lack bytes that the residency log claims; they are read and "
                    "checked in the background, and fetched again where they are wrong");
  }
}

class DiskContentCache final : public ContentCache {
 public:
  DiskContentCache(std::shared_ptr<CacheCore> core, const CacheTuning& tuning)
      : core_(std::move(core)),
        retryDisk_(tuning.retryDisk),
        closing_(shard().reactor),
        reopening_(shard().reactor) {}

  Task<Status> open() {
    std::optional<Error> failure;  // the first
    std::vector<std::shared_ptr<CacheDirectory>> locked;
    for (const auto& directory : core_->directories) {
      const Status done = co_await lock(*directory);
      // An agent that has one of the directories is about to end.
      if (done.code() == ErrorCode::kInUse) co_return done;
      if (done.ok()) locked.push_back(directory);
      if (!done.ok() && !failure) failure = done.error();
    }
    // All names under which views are published are known before any view is swept.
    for (const auto& directory : locked) {
      const Status done = co_await core_->views.readPublished(*directory);
      if (!done.ok() && !failure) failure = done.error();
    }
    bool any = false;
    for (const auto& directory : locked) {
      const Status done = co_await openLocked(*directory);
      any = any || done.ok();
      if (!done.ok() && !failure) failure = done.error();
    }
    if (!any) co_return *failure;
    if (failure) reopening_.spawn(reopen());
    const auto first =
        std::ranges::find_if(core_->directories, &CacheDirectory::isOpen,
                             [](const auto& each) -> CacheDirectory& { return *each; });
    manifests_ = (*first)->path() + "/manifests";
    co_return Status();
  }

  Task<void> close() override {
    closing_.set();
    co_await reopening_.close();
    co_await core_->scanner.close();
    for (const auto& directory : core_->directories) co_await directory->close(shard().reactor);
  }

  Task<Result<std::shared_ptr<CachedFile>>> acquire(ContentKey key, std::uint64_t size,
                                                    bool executable) override {
    if (size > kMaxFileBytes) {
      co_return Error{ErrorCode::kInvalidArgument,
                      "a file of " + std::to_string(size) +
                          " bytes is larger than a cache file can be (16 TiB)"};
    }
    Reactor& here = core_->shards[shardOf(key, core_->shards.size())].reactor;
    for (;;) {
      std::shared_ptr<CacheEntry> entry = core_->index.find(key);
      if (entry && isMisplaced(*entry) && core_->index.abandon(entry)) {
        entry->directory.noteAbandoned(entry);
        continue;
      }
      if (!entry) {
        entry = std::make_shared<CacheEntry>(key, size, roomiest(key, size), executable);
        entry->scrubbedAt = Clock::now();
        if (!core_->index.insert(entry)) continue;
      }
      if (entry->size != size) {
        co_return Error{ErrorCode::kInvalidArgument,
                        "content key " + key.hex() + " has " + std::to_string(entry->size) +
                            " bytes here, not " + std::to_string(size)};
      }
      const std::shared_ptr<OpenCacheFile> file = OpenCacheFile::open(*core_, entry);
      if (!file) {
        co_await core_->index.settled(entry, here);
        continue;
      }
      file->touch();
      std::shared_ptr<CachedFile> result = file;
      co_return std::move(result);
    }
  }

  static Error isHere(const ContentKey& key) {
    return {ErrorCode::kAlreadyExists, "content key " + key.hex() + " is in the cache already"};
  }

  Task<Result<std::shared_ptr<CachedFile>>> adopt(FileToAdopt file) override {
    const std::uint64_t blocks = (file.size + kBlockBytes - 1) / kBlockBytes;
    if (file.size == 0 || file.size > kMaxFileBytes || file.blockChecksums.size() != blocks ||
        file.directory >= core_->directories.size()) {
      co_return Error{ErrorCode::kInvalidArgument,
                      file.path + ": size, checksums or cache directory are not those of a file"};
    }
    CacheDirectory& directory = *core_->directories[file.directory];
    auto entry = std::make_shared<CacheEntry>(file.key, file.size, directory, file.executable);
    entry->scrubbedAt = Clock::now();
    if (!core_->index.insert(entry)) {
      // A reader of a dataset may have opened the key, which makes no file yet.
      entry = core_->index.find(file.key);
      const bool fits = entry && entry->size == file.size && &entry->directory == &directory;
      if (!fits) co_return isHere(file.key);
    }
    const std::shared_ptr<OpenCacheFile> opened = OpenCacheFile::open(*core_, entry);
    if (!opened) co_return isHere(file.key);
    const Status adopted =
        co_await opened->adopt(std::move(file.path), std::move(file.blockChecksums));
    if (!adopted.ok()) co_return adopted.error();
    opened->touch();
    std::shared_ptr<CachedFile> result = opened;
    co_return std::move(result);
  }

  std::shared_ptr<CachedFile> find(const ContentKey& key) override {
    const auto entry = core_->index.find(key);
    if (!entry || entry->charged == 0) return nullptr;
    if (entry->residentBytes() == 0 && entry->size != 0) return nullptr;
    return OpenCacheFile::open(*core_, entry);
  }

  Task<Result<EvictOutcome>> evict(ContentKey key) override {
    co_return co_await core_->evictor.evict(key, core_->here().reactor);
  }
  void pin(const ContentKey& key, const std::string& owner) override {
    core_->index.pin(key, owner);
  }
  void unpin(const ContentKey& key, const std::string& owner) override {
    core_->index.unpin(key, owner);
  }
  void noteClusterUse(const ContentKey& key, std::int64_t usedAtMs) override {
    if (const auto entry = core_->index.find(key)) entry->noteClusterUse(usedAtMs);
  }
  void setClusterCopies(ClusterCopies* copies) override { core_->copies = copies; }
  std::uint64_t residentBytes(const ContentKey& key) const override {
    const auto entry = core_->index.find(key);
    return entry && !entry->directory.readsHang() ? entry->residentBytes() : 0;
  }
  std::uint64_t sizeOf(const ContentKey& key) const override {
    const auto entry = core_->index.find(key);
    return entry && entry->residentBytes() != 0 ? entry->size : 0;
  }
  std::vector<ContentKey> leastRecentlyScrubbed(std::size_t directory, Clock::time_point before,
                                                std::size_t limit) const override {
    std::vector<std::pair<Clock::time_point, ContentKey>> due;
    for (const auto& entry : core_->index.entries()) {
      if (&entry->directory != core_->directories[directory].get()) continue;
      const Clock::time_point scrubbed = entry->scrubbedAt;
      if (scrubbed < before && entry->residentBytes() != 0) due.emplace_back(scrubbed, entry->key);
    }
    const auto count = static_cast<std::ptrdiff_t>(std::min(limit, due.size()));
    std::partial_sort(due.begin(), due.begin() + count, due.end());
    std::vector<ContentKey> keys;
    for (std::ptrdiff_t i = 0; i < count; ++i)
      keys.push_back(due[static_cast<std::size_t>(i)].second);
    return keys;
  }
  void noteScrubbed(const ContentKey& key, Clock::time_point at) override {
    if (const auto entry = core_->index.find(key)) entry->scrubbedAt = at;
  }
  bool verifiedWhole(const ContentKey& key) const override {
    const auto entry = core_->index.find(key);
    return entry && entry->verified();
  }
  std::string manifestDirectory() const override { return manifests_; }
  WatchedFileSystem& files() const override { return core_->filesHere(); }

  Task<Result<std::string>> buildView(std::shared_ptr<const Manifest> manifest) override {
    return core_->views.build(std::move(manifest));
  }
  Task<Status> removeView(Sha256Digest digest) override {
    return core_->views.remove(digest, shard().reactor);
  }
  std::string viewPath(const Sha256Digest& digest) const override {
    return core_->views.path(digest);
  }
  Task<Status> publish(std::string name, Sha256Digest digest) override {
    return core_->views.publish(std::move(name), digest);
  }
  Task<Status> unpublish(std::string name) override {
    return core_->views.unpublish(std::move(name));
  }
  std::map<std::string, Sha256Digest> published() const override {
    return core_->views.published();
  }

  std::vector<std::string> recoveryNotes() const override {
    std::vector<std::string> notes;
    for (const auto& directory : core_->directories) {
      if (directory->isOpen()) noteRecovery(notes, directory->path(), directory->recovery());
    }
    return notes;
  }

  CacheStatistics statistics() const override {
    CacheStatistics sums;
    for (const auto& directory : core_->directories) sums.directories.push_back(about(*directory));
    for (const KeyIndex::Usage& usage : core_->index.usages()) {
      const std::uint64_t bytes = usage.entry->residentBytes();
      if (usage.inUse && bytes != 0 && usage.entry->directory.readsHang())
        noteWaiting(sums.directories, *usage.entry);
      sums.contentKeys += bytes != 0 ? 1 : 0;
      sums.residentBytes += bytes;
      sums.pinnedBytes += usage.pinned ? bytes : 0;
    }
    sums.corruptBlocks = core_->counters.corruptBlocks;
    sums.doubtfulFiles = core_->scanner.left();
    sums.evictedFiles = core_->counters.evictedFiles;
    sums.evictedBytes = core_->counters.evictedBytes;
    sums.redundantCopies = core_->counters.redundantCopies;
    sums.lastCopies = core_->counters.lastCopies;
    sums.unansweredCopies = core_->counters.unansweredCopies;
    sums.unaskedCopies = core_->counters.unaskedCopies;
    sums.lastCopiesKept = core_->counters.lastCopiesKept;
    for (const auto& directory : core_->directories) {
      if (directory->isOpen()) sums.lostLogBytes += directory->recovery().replay.lostBytes;
    }
    return sums;
  }

 private:
  [[nodiscard]] const ShardContext& shard() const { return core_->shards[0]; }

  static CacheStatistics::Directory about(CacheDirectory& directory) {
    SpaceBudget& budget = directory.budget();
    return {.path = directory.path(),
            .budgetBytes = budget.budgetBytes(),
            .usedBytes = budget.usedBytes(),
            .freeFloorBytes = budget.freeFloorBytes(),
            .fileSystemFreeBytes = budget.freeBytes(),
            .failure = directory.failure(),
            .waiting = {},
            .waitingFiles = 0};
  }
  static void noteWaiting(std::vector<CacheStatistics::Directory>& directories,
                          const CacheEntry& entry) {
    const auto its =
        std::ranges::find(directories, entry.directory.path(), &CacheStatistics::Directory::path);
    if (++its->waitingFiles <= kNamedFiles) its->waiting.push_back({entry.key, {}});
  }
  // The directory for a file of `size` bytes. Files are shared out in proportion to the budgets of
  // the directories that accept them and have room; when none accepts, of all that are open.
  [[nodiscard]] CacheDirectory& roomiest(const ContentKey& key, std::uint64_t size) const {
    const auto rank = [&key, size](const std::shared_ptr<CacheDirectory>& each) {
      const auto bytes = static_cast<std::int64_t>(allocatedBytes(size));
      const auto budget = static_cast<std::int64_t>(each->budget().budgetBytes());
      const std::int64_t free = each->budget().expectedFree();
      const double share =
          static_cast<double>(free) / static_cast<double>(std::max<std::int64_t>(1, budget));
      return std::tuple(!each->hasAbandoned(key), each->accepts(), each->isOpen(), bytes <= budget,
                        bytes <= free, share);
    };
    return **std::ranges::max_element(core_->directories, {}, rank);
  }
  // As CachedFile::misplaced.
  [[nodiscard]] bool isMisplaced(const CacheEntry& entry) const {
    const bool stored = entry.charged != 0 && entry.fullyClaimed();
    return !entry.directory.accepts() && !stored && roomiest(entry.key, entry.size).accepts();
  }

  Task<Status> lock(CacheDirectory& directory) {
    co_await directory.home().reactor.enter();
    const Status locked = co_await directory.takeLock();
    co_await shard().reactor.enter();
    if (!locked.ok()) directory.noteFailed(locked.error());
    co_return locked;
  }

  // A directory that is locked, after its published names were read.
  Task<Status> openLocked(CacheDirectory& directory) {
    Status done = co_await core_->views.recover(directory);
    if (done.ok()) {
      co_await directory.home().reactor.enter();
      std::function<bool(const ContentKey&)> keep = [this](const ContentKey& key) {
        return core_->views.publishes(key);
      };
      done = co_await directory.open(std::move(keep));
      co_await shard().reactor.enter();
    }
    if (done.ok()) done = co_await core_->views.removeBroken(directory);
    if (done.ok()) {
      core_->scanner.start(directory.recovery().doubtful);
    } else {
      directory.noteFailed(done.error());
    }
    co_return done;
  }

  // Opens directories that failed at the start, as soon as their disks let it.
  Task<void> reopen() {
    for (bool all = false; !all;) {
      if (co_await closing_.waitUntil(Clock::now() + retryDisk_)) co_return;
      all = true;
      for (const auto& directory : core_->directories) {
        if (directory->isOpen()) continue;
        if (!directory->mayTryAgain()) {
          all = false;
          continue;
        }
        Status done = co_await lock(*directory);
        if (done.ok()) done = co_await core_->views.readPublished(*directory);
        if (done.ok()) done = co_await openLocked(*directory);
        all = all && done.ok();
      }
    }
  }

  const std::shared_ptr<CacheCore> core_;
  const Clock::duration retryDisk_;
  Event closing_;
  Gate reopening_;
  std::string manifests_;  // set by open()
};

}  // namespace

std::int64_t wallClockMs() {
  const auto now = WallClock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::size_t CacheCore::indexHere() const {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].reactor.onThisThread()) return i;
  }
  assert(false && "called on a thread that is no shard");
  return 0;
}

Task<Result<std::unique_ptr<ContentCache>>> openContentCache(
    std::vector<CacheDirectoryOptions> directories, std::vector<ShardContext> shards,
    CacheTuning tuning) {
  if (directories.empty() || shards.empty()) {
    co_return Error{ErrorCode::kInvalidArgument,
                    "a cache needs at least one directory and one shard"};
  }
  std::vector<std::shared_ptr<DiskWatch>> disks;
  std::vector<CacheDisk> ofDirectories;
  for (std::size_t i = 0; i < directories.size(); ++i) {
    ofDirectories.emplace_back();
    if (directories[i].stall == Clock::duration::max()) continue;
    disks.push_back(
        std::make_shared<DiskWatch>(directories[i].path, shards.size() * kThreadsPerShard));
    ofDirectories.back() = {disks.back(), &shards[i % shards.size()].files};
  }
  const auto core = std::make_shared<CacheCore>(shards, disks);
  for (std::size_t i = 0; i < directories.size(); ++i) {
    core->directories.push_back(std::make_shared<CacheDirectory>(
        directories[i], core->shards, i % shards.size(), core->index, tuning, ofDirectories[i]));
  }
  auto cache = std::make_unique<DiskContentCache>(core, tuning);
  const Status opened = co_await cache->open();
  if (!opened.ok()) {
    co_await cache->close();
    co_return opened.error();
  }
  std::unique_ptr<ContentCache> result = std::move(cache);
  co_return std::move(result);
}

Task<Result<std::unique_ptr<ContentCache>>> ContentCache::open(
    std::vector<CacheDirectoryOptions> directories, std::vector<ShardContext> shards) {
  return openContentCache(std::move(directories), std::move(shards), CacheTuning{});
}

}  // namespace hearth
