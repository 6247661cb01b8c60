#include "memory_files/memory_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <limits>
#include <optional>

#include "memory_files/charged_file_system.h"

namespace hearth {
namespace {

constexpr char kHugeBytes[] = "user.hearth.huge";
constexpr char kRank[] = "user.hearth.rank";

// The key of the cache file behind a descriptor, by its name in the kernel's table.
std::optional<ContentKey> keyOf(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char path[4096];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length < 0) return std::nullopt;
  const std::string_view name(path, static_cast<std::size_t>(length));
  return ContentKey::parse(name.substr(name.rfind('/') + 1));
}

// As takeRoom() has noted them.
std::uint64_t hugeBytesOf(const std::shared_ptr<CachedFile>& file) {
  std::uint64_t sum = 0;
  const bool known = file != nullptr && ::getxattr(file->path().c_str(), kHugeBytes, &sum,
                                                   sizeof sum) == ssize_t{sizeof sum};
  return known ? sum : 0;
}

// As noteRank() has noted it.
MemoryRank rankOf(const std::shared_ptr<CachedFile>& file) {
  std::uint8_t rank = 0;
  const bool known =
      file != nullptr && ::getxattr(file->path().c_str(), kRank, &rank, sizeof rank) == 1;
  return static_cast<MemoryRank>(
      std::min(known ? rank : std::uint8_t{0}, static_cast<std::uint8_t>(MemoryRank::kMemory)));
}

}  // namespace

MemoryFiles::MemoryFiles(std::string off, std::uint64_t budgetBytes)
    : off_(std::move(off)), room_(budgetBytes) {}

MemoryFiles::MemoryFiles(MemoryFilesOptions options, std::vector<ShardContext> shards)
    : options_(std::move(options)), shards_(std::move(shards)), room_(options_.budgetBytes) {}

MemoryFiles::~MemoryFiles() = default;

Task<Result<std::unique_ptr<MemoryFiles>>> MemoryFiles::open(MemoryFilesOptions options,
                                                             std::vector<ShardContext> shards) {
  std::unique_ptr<MemoryFiles> files(new MemoryFiles(std::move(options), std::move(shards)));
  Status opened = co_await files->openCache();
  if (opened.ok()) opened = co_await files->adopt();
  if (!opened.ok()) {
    co_await files->close();
    co_return opened.error();
  }
  co_return std::move(files);
}

std::vector<ShardContext> MemoryFiles::chargedShards() {
  std::vector<ShardContext> charged;
  for (const ShardContext& shard : shards_) {
    ChargedFileSystem::TakeRoom take;
    if (options_.takeRoom) {
      take = [this](int descriptor, std::uint64_t offset, std::uint64_t bytes) {
        return takeRoom(descriptor, offset, bytes);
      };
    }
    files_.push_back(std::make_unique<ChargedFileSystem>(shard.files, shard.reactor, blocking_,
                                                         std::move(take)));
    charged.push_back({shard.reactor, *files_.back()});
  }
  return charged;
}

Result<std::uint64_t> MemoryFiles::takeRoom(int descriptor, std::uint64_t offset,
                                            std::uint64_t bytes) {
  const Result<std::uint64_t> huge = options_.takeRoom(descriptor, offset, bytes);
  if (!huge.ok()) return huge;
  if (const auto key = keyOf(descriptor)) {
    const std::uint64_t sum = room_.noteHuge(*key, *huge);
    // For the next agent's statistics; a kernel that refuses it (before 6.6) costs only these.
    (void)::fsetxattr(descriptor, kHugeBytes, &sum, sizeof sum, 0);
  }
  return huge;
}

Task<Status> MemoryFiles::openCache() {
  if (::mkdir(options_.path.c_str(), 0700) != 0 && errno != EEXIST)
    co_return errnoError(errno, "making " + options_.path);
  // MemoryRoom decides what goes: the directory itself never needs to evict.
  CacheDirectoryOptions directory{.path = options_.path,
                                  .budgetBytes = options_.budgetBytes + kOverheadBytes,
                                  .freeFloorBytes = 0,
                                  .stall = Clock::duration::max()};
  Task<Result<std::unique_ptr<ContentCache>>> opening =
      ContentCache::open({std::move(directory)}, chargedShards());
  Result<std::unique_ptr<ContentCache>> cache = co_await opening;
  if (!cache.ok()) co_return cache.error();
  cache_ = std::move(*cache);
  co_return Status();
}

Task<Status> MemoryFiles::adopt() {
  const std::vector<ContentKey> keys = cache_->leastRecentlyScrubbed(
      0, Clock::time_point::max(), std::numeric_limits<std::ptrdiff_t>::max());
  for (const ContentKey& key : keys) {
    if (has(key)) {
      const std::shared_ptr<CachedFile> file = cache_->find(key);
      room_.adopt(key, cache_->sizeOf(key), hugeBytesOf(file), rankOf(file));
    } else if (const auto gone = co_await cache_->evict(key); !gone.ok()) {
      co_return gone.error();
    }
  }
  for (const ContentKey& key : room_.excess()) (void)co_await evict(key);
  co_return Status();
}

Task<void> MemoryFiles::close() {
  {
    const std::lock_guard lock(mutex_);
    open_.clear();
  }
  if (cache_ != nullptr) co_await cache_->close();
}

bool MemoryFiles::has(const ContentKey& key) const {
  return cache_ != nullptr && cache_->verifiedWhole(key);
}

void MemoryFiles::raise(const ContentKey& key, MemoryRank rank) {
  noteRank(key, room_.raise(key, rank));
}

// A kernel without such attributes on tmpfs (before 6.6) loses the ranks with the agent.
void MemoryFiles::noteRank(const ContentKey& key, MemoryRank rank) const {
  const std::shared_ptr<CachedFile> file = cache_->find(key);
  if (file != nullptr) (void)::setxattr(file->path().c_str(), kRank, &rank, sizeof rank, 0);
}

std::shared_ptr<CachedFile> MemoryFiles::find(const ContentKey& key) {
  if (!has(key)) return nullptr;
  room_.noteUse(key, Clock::now());
  std::shared_ptr<CachedFile> replaced;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto known = open_.find(key); known != open_.end()) return known->second;
  std::shared_ptr<CachedFile> file = cache_->find(key);
  if (file == nullptr || !file->verifiedWhole()) return nullptr;
  if (open_.size() >= kMaxOpen) {
    replaced = std::move(open_.begin()->second);
    open_.erase(open_.begin());
  }
  open_[key] = file;
  return file;
}

void MemoryFiles::letGo(const ContentKey& key) {
  std::shared_ptr<CachedFile> last;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto known = open_.find(key);
  if (known == open_.end()) return;
  last = std::move(known->second);
  open_.erase(known);
}

Task<Result<std::shared_ptr<CachedFile>>> MemoryFiles::reserve(Wish wish) {
  if (cache_ == nullptr) co_return Error{ErrorCode::kUnsupported, off_};
  const MemoryRoom::Claim claim{wish.key, wish.size, wish.rank, wish.since};
  MemoryRoom::Keys staying;
  MemoryRoom::Answer answer = room_.claim(claim, staying);
  while (!answer.taken && !answer.victims.empty()) {
    for (const ContentKey& victim : answer.victims) {
      if (!co_await evict(victim)) staying.insert(victim);
    }
    answer = room_.claim(claim, staying);
  }
  if (!answer.taken) {
    refusedFiles_.fetch_add(1, std::memory_order_relaxed);
    const Error refusal{ErrorCode::kOutOfSpace,
                        "memory has no room for a file of " + std::to_string(wish.size) +
                            " bytes beside files that are in use or were wanted later; raise "
                            "engine.memoryBytes"};
    noteFailure(refusal.message);
    co_return refusal;
  }
  Result<std::shared_ptr<CachedFile>> file =
      co_await cache_->acquire(wish.key, wish.size, wish.executable);
  if (!file.ok()) room_.release(wish.key);
  co_return file;
}

Task<Status> MemoryFiles::publish(std::shared_ptr<CachedFile> file, Sha256Digest digest) {
  const std::uint64_t generation = file->generation();
  const Status claimed = co_await file->claimed();
  if (!claimed.ok()) co_return claimed;
  // Before the file is found: one that another fill gave up meanwhile has no room.
  if (!room_.filled(file->key()))
    co_return Error{ErrorCode::kConflict, "memory for the file was given up while it was filled"};
  noteRank(file->key(), room_.raise(file->key(), MemoryRank::kUse));
  const Status recorded = co_await file->recordVerified(digest, generation);
  if (recorded.ok()) noteFailure("");
  co_return recorded;
}

Task<void> MemoryFiles::abandon(std::shared_ptr<CachedFile> file, Error why) {
  const ContentKey key = file->key();
  file.reset();
  noteFailure(std::move(why.message));
  const Result<EvictOutcome> gone = co_await cache_->evict(key);
  const bool left =
      gone.ok() && (*gone == EvictOutcome::kEvicted || *gone == EvictOutcome::kAbsent);
  // A file that could not be removed keeps its room.
  if (left) room_.release(key);
}

// A lease for writing is refused while anyone else has the file open or mapped (fcntl(2)).
bool MemoryFiles::heldByPrograms(const ContentKey& key) const {
  const std::shared_ptr<CachedFile> file = cache_->find(key);
  if (file == nullptr) return false;
  const OwnedFd descriptor(::open(file->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!descriptor) return true;
  // Without F_SETSIG an opener who breaks the lease ends this process by SIGIO.
  if (::fcntl(descriptor.get(), F_SETSIG, SIGURG) != 0) return true;
  return ::fcntl(descriptor.get(), F_SETLEASE, F_WRLCK) != 0;
}

Reactor& MemoryFiles::here() const {
  const auto ours = std::ranges::find_if(
      shards_, [](const ShardContext& shard) { return shard.reactor.onThisThread(); });
  return ours->reactor;
}

Task<bool> MemoryFiles::evict(ContentKey key) {
  if (!has(key)) co_return false;
  const std::uint64_t bytes = cache_->sizeOf(key);
  letGo(key);
  if (co_await here().offload([this, key] { return heldByPrograms(key); })) {
    heldFiles_.fetch_add(1, std::memory_order_relaxed);
    co_return false;
  }
  const Result<EvictOutcome> gone = co_await cache_->evict(key);
  if (!gone.ok() || *gone != EvictOutcome::kEvicted) co_return false;
  room_.release(key);
  evictedFiles_.fetch_add(1, std::memory_order_relaxed);
  evictedBytes_.fetch_add(bytes, std::memory_order_relaxed);
  co_return true;
}

void MemoryFiles::noteFailure(std::string message) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(message);
}

MemoryFilesUse MemoryFiles::use() const {
  MemoryFilesUse use;
  use.room = room_.use();
  use.evictedFiles = evictedFiles_.load();
  use.evictedBytes = evictedBytes_.load();
  use.heldFiles = heldFiles_.load();
  use.refusedFiles = refusedFiles_.load();
  use.off = off_;
  use.noHugePages = options_.noHugePages;
  const std::lock_guard lock(mutex_);
  use.failure = failure_;
  return use;
}

}  // namespace hearth
