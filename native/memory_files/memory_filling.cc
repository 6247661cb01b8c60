#include "memory_files/memory_filling.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "cache/verified_read.h"

namespace hearth {
namespace {

// Page-aligned memory for one chunk that comes from the disk.
class ChunkMemory {
 public:
  ChunkMemory()
      : data_(mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0)) {}
  ~ChunkMemory() {
    if (data_ != MAP_FAILED) munmap(data_, kChunkBytes);
  }
  ChunkMemory(const ChunkMemory&) = delete;
  ChunkMemory& operator=(const ChunkMemory&) = delete;

  [[nodiscard]] bool there() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(data_), kChunkBytes};
  }

 private:
  void* const data_;
};

}  // namespace

class MemoryFilling::Fill {
 public:
  Fill(Reactor& reactor, std::shared_ptr<CachedFile> copy)
      : file(std::move(copy)), copies(reactor), ended(reactor) {}

  std::shared_ptr<CachedFile> file;  // null once it was published or given up
  Gate copies;                       // of chunks that were stored
  Event ended;
  std::uint32_t users = 1;  // that have yet to finish
  bool completing = false;
  Status failure;
};

Task<std::shared_ptr<MemoryFilling::Fill>> MemoryFilling::begin(std::shared_ptr<FileFetch> fetch,
                                                                MemoryRank rank,
                                                                Clock::time_point since) {
  const ManifestEntry& about = fetch->reference.about;
  const ContentKey key = about.key;
  if (!ports_.files.enabled() || about.size < MemoryFiles::kFromBytes) co_return nullptr;
  if (ports_.files.find(key) != nullptr) {
    ports_.files.raise(key, rank);
    co_return nullptr;
  }
  Task<Result<std::shared_ptr<CachedFile>>> reserving =
      ports_.files.reserve({key, about.size, about.executable, rank, since});
  Result<std::shared_ptr<CachedFile>> reserved = co_await reserving;
  if (!reserved.ok()) co_return nullptr;
  // Another job may have begun it meanwhile, and may even have published it.
  if (const auto known = fills_.find(key); known != fills_.end()) {
    ++known->second->users;
    co_return known->second;
  }
  if (ports_.files.has(key)) co_return nullptr;
  auto fill = std::make_shared<Fill>(ports_.reactor, std::move(*reserved));
  fills_[key] = fill;
  co_return fill;
}

void MemoryFilling::stored(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                           const std::shared_ptr<LoadedChunk>& loaded) {
  const auto known = fills_.find(fetch->key());
  if (known == fills_.end()) return;
  const std::shared_ptr<Fill>& fill = known->second;
  if (!fill->failure.ok() || fill->file->resident(chunk)) return;
  fill->copies.spawn(copyInBackground(fill, chunk, loaded));
}

void MemoryFilling::noteOpen(const std::shared_ptr<FileFetch>& fetch) {
  const ContentKey& key = fetch->key();
  const bool worth = ports_.files.enabled() && fetch->cache->size() >= MemoryFiles::kFromBytes &&
                     !ports_.files.has(key) && servableWhole(*fetch);
  if (!worth || ports_.gate.closed()) return;
  if (opened_.size() >= kMaxOpened) opened_.clear();
  const Clock::time_point now = Clock::now();
  const auto [known, first] = opened_.try_emplace(key, now);
  const bool often = !first && now - known->second < kOftenWithin;
  known->second = now;
  if (!often) return;
  opened_.erase(known);
  ports_.gate.spawn(bring(fetch));
}

Task<void> MemoryFilling::bring(std::shared_ptr<FileFetch> fetch) {
  co_await brings_.acquire(1);
  Task<std::shared_ptr<Fill>> beginning = begin(fetch, MemoryRank::kUse, Clock::now() - kUnusedFor);
  if (std::shared_ptr<Fill> fill = co_await beginning) {
    const auto wanted = [&gate = ports_.gate] { return !gate.closed(); };
    co_await finish(fetch, std::move(fill), wanted);
  }
  brings_.release(1);
}

Task<void> MemoryFilling::copyInBackground(std::shared_ptr<Fill> fill, std::uint32_t chunk,
                                           std::shared_ptr<LoadedChunk> loaded) {
  Task<Status> copying = copy(fill, chunk, std::move(loaded));
  const Status copied = co_await copying;
  if (!copied.ok() && fill->failure.ok()) fill->failure = copied;
}

Task<Status> MemoryFilling::copy(std::shared_ptr<Fill> fill, std::uint32_t chunk,
                                 std::shared_ptr<LoadedChunk> loaded) {
  co_return co_await fill->file->writeChunk(chunk, loaded->bytes, loaded->checksums, loaded);
}

Task<void> MemoryFilling::readIn(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                                 std::uint32_t chunk) {
  BandwidthLimiter& disk = ports_.limits.disk;
  if (disk.limits(Priority::kBackground))
    co_await disk.pass(ports_.reactor, fetch->chunkSize(chunk), Priority::kBackground);
  const auto memory = std::make_shared<const ChunkMemory>();
  Status done;
  if (!memory->there()) done = errnoError(ENOMEM, "memory for a chunk");
  if (done.ok()) done = co_await fetch->cache->readChunk(chunk, memory->bytes(), memory);
  if (done.ok()) {
    const std::vector<std::uint32_t> checksums = fetch->cache->blockChecksums(chunk);
    done = co_await fill->file->writeChunk(chunk, memory->bytes().first(fetch->chunkSize(chunk)),
                                           checksums, memory);
  }
  if (!done.ok() && fill->failure.ok()) fill->failure = done;
  buffers_.release(1);
}

Task<bool> MemoryFilling::restore(std::shared_ptr<FileFetch> fetch, std::uint32_t chunk) {
  const std::shared_ptr<CachedFile> copy = ports_.files.find(fetch->key());
  if (copy == nullptr) co_return false;
  Task<Result<std::span<const std::byte>>> reading =
      readVerified(copy, fetch->chunkOffset(chunk), fetch->chunkSize(chunk));
  const Result<std::span<const std::byte>> bytes = co_await reading;
  if (!bytes.ok()) co_return false;
  const std::vector<std::uint32_t> checksums = copy->blockChecksums(chunk);
  const Status written = co_await fetch->cache->writeChunk(chunk, *bytes, checksums, copy);
  co_return written.ok();
}

Task<std::uint64_t> MemoryFilling::check(std::shared_ptr<FileFetch> fetch) {
  const std::shared_ptr<CachedFile> copy = ports_.files.find(fetch->key());
  if (copy == nullptr) co_return 0;
  std::uint64_t bad = 0;
  ScrubWatch watch;
  watch.bad = [&bad](std::uint64_t) { ++bad; };
  [[maybe_unused]] const Result<std::uint64_t> scrubbed = co_await copy->scrub(std::move(watch));
  if (copy->complete()) co_return bad;
  // A copy that has lost a chunk is filled as one that has not got it yet.
  Task<std::shared_ptr<Fill>> beginning = begin(fetch, MemoryRank::kUse, Clock::now());
  if (std::shared_ptr<Fill> fill = co_await beginning) {
    const auto wanted = [&gate = ports_.gate] { return !gate.closed(); };
    co_await finish(fetch, std::move(fill), wanted);
  }
  co_return bad;
}

// The cache file may have lost a chunk, or got another one, since its bytes were copied.
Status MemoryFilling::same(const FileFetch& fetch, const CachedFile& copy) {
  for (std::uint32_t chunk = 0; chunk < copy.chunkCount(); ++chunk) {
    if (copy.blockChecksums(chunk) != fetch.cache->blockChecksums(chunk)) {
      return Error{ErrorCode::kConflict,
                   fetch.reference.path() + " changed on the disk while it was copied to memory"};
    }
  }
  return {};
}

Task<Status> MemoryFilling::complete(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                                     const std::function<bool()>& wanted) {
  Gate reading(ports_.reactor);
  for (std::uint32_t chunk = 0; chunk < fill->file->chunkCount(); ++chunk) {
    if (!fill->failure.ok() || !wanted()) break;
    if (fill->file->resident(chunk)) continue;
    const std::shared_ptr<LoadedChunk> loaded = fetch->loaded.find(chunk);
    if (loaded != nullptr && loaded->checksums == fetch->cache->blockChecksums(chunk)) {
      Task<Status> copying = copy(fill, chunk, loaded);
      if (const Status copied = co_await copying; !copied.ok()) fill->failure = copied;
      continue;
    }
    co_await buffers_.acquire(1);
    reading.spawn(readIn(fetch, fill, chunk));
  }
  co_await reading.close();
  if (!fill->failure.ok()) co_return fill->failure;
  if (!wanted()) co_return Error{ErrorCode::kCancelled, "nobody waits for the file any more"};
  if (!servableWhole(*fetch)) {
    co_return Error{
        ErrorCode::kNotFound,
        fetch->reference.path() + " is not whole on the disk, or was not compared with its digest"};
  }
  if (Status equal = same(*fetch, *fill->file); !equal.ok()) co_return equal;
  co_return co_await ports_.files.publish(
      fill->file, fetch->reference.about.sourceDigest.value_or(Sha256Digest{}));
}

Task<void> MemoryFilling::finish(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                                 std::function<bool()> wanted) {
  if (--fill->users != 0 || std::exchange(fill->completing, true)) {
    co_await fill->ended.wait();
    co_return;
  }
  co_await fill->copies.close();
  Task<Status> completing = complete(fetch, fill, wanted);
  const Status completed = co_await completing;
  fills_.erase(fetch->key());
  std::shared_ptr<CachedFile> file = std::move(fill->file);
  if (!completed.ok()) {
    co_await ports_.files.abandon(std::move(file), completed.error());
  } else if (!ports_.keepsSlots) {
    (void)ports_.tier.forgetIdle(fetch->key());
  }
  fill->ended.set();
}

}  // namespace hearth
