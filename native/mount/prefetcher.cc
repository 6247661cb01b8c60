#include "mount/prefetcher.h"

#include <algorithm>
#include <utility>

#include "cache/verified_read.h"
#include "mount/dataset_source.h"
#include "mount/mount_ports.h"

namespace hearth {
namespace {

// Chunks of one file that read-ahead has in flight.
constexpr std::uint32_t kWindowChunks = 16;
// Files expected on one shard, for all readers; and small ones that are here already.
constexpr std::size_t kMaxExpected = 256;
constexpr std::size_t kMaxEarly = 256;
// How long fetched files wait for their reader, also after the reader of the file before has left:
// it may be on its way from one to the other.
constexpr auto kLookAheadTimeout = std::chrono::seconds(2);
// How often read-ahead looks whether the cache keeps chunks again.
constexpr auto kRefusedPause = std::chrono::milliseconds(100);
// First and longest pause before a failed fetch is tried again.
constexpr Clock::duration kFirstFailedPause = std::chrono::milliseconds(500);
constexpr Clock::duration kLongestFailedPause = std::chrono::seconds(4);
constexpr auto kLookAheadTick = std::chrono::milliseconds(50);
// A chunk farther behind the reader than this is another reader's.
constexpr std::uint32_t kPassed = 16;
// Most entries without bytes between two files that are read in order.
constexpr std::uint32_t kMaxBetween = 1024;

// The file before this one in its folder that has bytes to be read; itself when there is none.
std::uint32_t fileBefore(const FileReference& file) {
  const Manifest& manifest = *file.dataset->manifest;
  const std::uint32_t entry = file.about.index;
  const std::uint32_t first = manifest.entry(file.about.parent).firstChild;
  for (std::uint32_t at = entry; at > first && entry - at < kMaxBetween;) {
    if (hasBytes(manifest.entry(--at))) return at;
  }
  return entry;
}

}  // namespace

Prefetcher::Prefetcher(MountShard& shard) : shard_(shard), earlyTurns_(shard.reactor, 2) {}

void Prefetcher::willNeed(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                          std::uint64_t length) {
  const auto first = static_cast<std::uint32_t>(offset / kChunkBytes);
  const std::uint64_t endByte =
      std::min(offset + std::min(length, ~offset), fetch->reference.about.size);
  const auto end = static_cast<std::uint32_t>((endByte + kChunkBytes - 1) / kChunkBytes);
  if (first < fetch->cursor && end <= fetch->cursor) fetch->cursor = first;  // the reader went back
  if (first > fetch->cursor) fetch->cursor = first;
  fetch->horizon = std::max(fetch->horizon, end);
  if (fetch->prefetching) return;
  fetch->prefetching = true;
  shard_.gate.spawn(prefetch(fetch));
}

void Prefetcher::loadAhead(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                           std::uint64_t length) {
  const auto end = static_cast<std::uint32_t>((offset + length + kChunkBytes - 1) / kChunkBytes);
  for (auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes); chunk < end; ++chunk) {
    if (fetch->loaded.find(chunk) == nullptr) shard_.gate.spawn(load(fetch, chunk));
  }
}

// Gives up a chunk that its reader reaches first: the reader reads it by itself.
Task<void> Prefetcher::load(std::shared_ptr<FileFetch> fetch, std::uint32_t chunk) {
  const auto wanted = [fetch, chunk] {
    const std::uint32_t reader = fetch->reading.load(std::memory_order_relaxed);
    const bool passed = chunk < reader && reader - chunk <= kPassed;
    const bool cached =
        fetch->cache->inPageCache(fetch->chunkOffset(chunk), fetch->chunkSize(chunk));
    return fetch->readers.load() != 0 && !passed && !cached;
  };
  [[maybe_unused]] const auto loaded = co_await shard_.fetcher.cacheLoads().load(
      fetch->cache, chunk, CacheLoads::Turn::kWait, wanted);
}

Task<void> Prefetcher::prefetch(std::shared_ptr<FileFetch> fetch) {
  const auto window = std::make_shared<Semaphore>(shard_.reactor, kWindowChunks);
  bool paused = false;
  while (fetch->cursor < fetch->horizon && fetch->awaited() && !shard_.gate.closed()) {
    const std::uint32_t chunk = fetch->cursor;
    if (fetch->cache->resident(chunk) || fetch->flights.contains(chunk)) {
      ++fetch->cursor;
      continue;
    }
    // A chunk that cannot be kept is fetched when its reader comes to it, and no earlier.
    if (fetch->cache->refuses(chunk)) {
      if (fetch->readers.load() == 0) break;
      co_await shard_.reactor.sleep(kRefusedPause);
      continue;
    }
    const bool failing = fetch->aheadPause != Clock::duration::zero();
    if (failing && !std::exchange(paused, true)) {
      co_await pauseAhead(fetch);
      continue;
    }
    const std::uint32_t count =
        std::min({kRunChunks, fetch->horizon - chunk, kChunksPerStripe - chunk % kChunksPerStripe});
    co_await window->acquire(count);
    if (fetch->cursor != chunk) {  // a failed chunk, or the reader's new place, comes first
      window->release(count);
      continue;
    }
    fetch->cursor += count;
    if (!failing) {
      shard_.gate.spawn(prefetchRun(fetch, {chunk, count}, window));
      continue;
    }
    paused = false;
    fetch->aheadPause = std::min(2 * fetch->aheadPause, kLongestFailedPause);
    co_await prefetchRun(fetch, {chunk, count}, window);
  }
  fetch->prefetching = false;
  const bool toItsEnd = fetch->cursor == fetch->cache->chunkCount();
  if (toItsEnd && fetch->readers.load() != 0) lookAhead(fetch, LookAhead::kFiles);
}

Task<void> Prefetcher::pauseAhead(std::shared_ptr<FileFetch> fetch) {
  const Clock::time_point until = Clock::now() + fetch->aheadPause;
  while (Clock::now() < until && fetch->awaited() && !shard_.gate.closed()) {
    co_await shard_.reactor.sleep(kLookAheadTick);
  }
}

void Prefetcher::opened(const std::shared_ptr<FileFetch>& fetch) {
  if (const std::shared_ptr<Event> opened = std::exchange(fetch->opened, nullptr)) opened->set();
  if (fetch->lookAhead != nullptr && fetch->cache->complete()) {
    lookAhead(fetch, LookAhead::kFirstFiles);
  }
}

void Prefetcher::smallFileRead(const std::shared_ptr<FileFetch>& fetch) {
  const FileReference& file = fetch->reference;
  const bool known = fetch->lookedAhead || fetch->lookAhead != nullptr;
  if (known || file.dataset->folderReaders.inOrder(file.about.index, fileBefore(file))) {
    lookAhead(fetch, LookAhead::kFirstFiles);
  }
}

void Prefetcher::lookAhead(const std::shared_ptr<FileFetch>& fetch, std::size_t files) {
  if (std::exchange(fetch->lookedAhead, true)) return;
  std::shared_ptr<LookAhead> ours = std::exchange(fetch->lookAhead, nullptr);
  const std::uint32_t entry = fetch->reference.about.index;
  // A new look-ahead would begin with few files, and take the next files from the reader's own
  // look-ahead.
  if (ours != nullptr && ours->justPassed(entry)) return;
  // Another reader comes behind the reader to which the look-ahead belongs.
  if (ours == nullptr || !ours->before(entry)) {
    ours = std::make_shared<LookAhead>(files);
  }
  const ContentCache& cache = shard_.ports.cache;
  const auto here = [&cache](const ManifestEntry& file) {
    return cache.residentBytes(file.key) == file.size &&
           file.size >= DatasetSource::kPassthroughFromBytes;
  };
  for (LookAhead::Part& part : ours->reach(fetch, here)) {
    MountShard& owner = shard_.ports.owner(part.file.about.key);
    owner.reactor.post([&owner, part = std::move(part), ours]() mutable {
      owner.prefetcher.expect(std::move(part), ours);
    });
  }
}

void Prefetcher::expect(LookAhead::Part part, const std::shared_ptr<LookAhead>& lookAhead) {
  if (shard_.gate.closed() || expected_ >= kMaxExpected) return;
  ++expected_;
  shard_.gate.spawn(fetchStart(std::move(part), lookAhead));
}

Task<void> Prefetcher::fetchStart(LookAhead::Part part, std::shared_ptr<LookAhead> lookAhead) {
  const Result<std::shared_ptr<FileFetch>> opened =
      co_await shard_.fetcher.open(std::move(part.file));
  if (opened.ok()) {  // else its reader gets the error
    const std::shared_ptr<FileFetch> fetch = *opened;
    fetch->lookAhead = lookAhead;
    // A complete file is not waited for with the others: it costs its reader little.
    if (servableWhole(*fetch)) {
      --expected_;
      co_await readEarly(fetch, std::move(lookAhead));
      co_return;
    }
    ++fetch->expecting;
    willNeed(fetch, 0, part.length);
    shard_.ports.earlyFiles->put({.fetch = fetch});
    co_await awaitReader(fetch, std::move(lookAhead));
    shard_.ports.earlyFiles->drop(*fetch);
    --fetch->expecting;
  }
  --expected_;
}

// Reads a small complete file into memory for its reader's open.
Task<void> Prefetcher::readEarly(std::shared_ptr<FileFetch> fetch,
                                 std::shared_ptr<LookAhead> lookAhead) {
  const std::uint64_t size = fetch->reference.about.size;
  const std::uint32_t entry = fetch->reference.about.index;
  // Skips a large file, which has become complete meanwhile.
  if (size >= DatasetSource::kPassthroughFromBytes || early_ >= kMaxEarly) co_return;
  ++early_;
  // Leaves helper threads for readers that wait.
  co_await earlyTurns_.acquire(1);
  const auto bytes = std::make_shared<std::vector<std::byte>>(size);
  const std::uint64_t generation = fetch->cache->generation();
  auto read = [cache = fetch->cache, bytes]() -> Status { return cache->readWhole(*bytes); };
  Status got = Error{ErrorCode::kCancelled, "no reader is on the way to it"};
  if (lookAhead->before(entry) && !shard_.gate.closed() &&
      shard_.fetcher.limits().disk.tryPass(size, Priority::kBackground)) {
    got = co_await callDisk(fetch->cache, std::move(read));  // else its reader fetches it
  }
  earlyTurns_.release(1);
  if (got.ok() && lookAhead->before(entry)) co_await awaitOpening({fetch, bytes, generation});
  --early_;
}

Task<void> Prefetcher::awaitOpening(EarlyFile file) {
  const std::shared_ptr<FileFetch> fetch = file.fetch;
  if (fetch->opened == nullptr) fetch->opened = std::make_shared<Event>(shard_.reactor);
  const std::shared_ptr<Event> opened = fetch->opened;
  shard_.ports.earlyFiles->put(std::move(file));
  const Clock::time_point until = Clock::now() + kLookAheadTimeout;
  while (Clock::now() < until && !shard_.gate.closed()) {
    if (co_await opened->waitUntil(Clock::now() + kLookAheadTick)) break;
  }
  shard_.ports.earlyFiles->drop(*fetch);
}

Task<void> Prefetcher::awaitReader(std::shared_ptr<FileFetch> fetch,
                                   std::shared_ptr<LookAhead> lookAhead) {
  auto until = Clock::now() + kLookAheadTimeout;
  while (Clock::now() < until && !shard_.gate.closed()) {
    co_await shard_.reactor.sleep(kLookAheadTick);
    // The file's reader has come, or another look-ahead has the file.
    if (fetch->lookAhead != lookAhead) co_return;
    if (!lookAhead->before(fetch->reference.about.index) || fetch->readers.load() != 0) co_return;
    const bool coming = fetch->prefetching || fetch->shared->coming();
    if (coming && lookAhead->reading()) until = Clock::now() + kLookAheadTimeout;
  }
}

Task<void> Prefetcher::prefetchRun(std::shared_ptr<FileFetch> fetch, ChunkRun chunks,
                                   std::shared_ptr<Semaphore> window) {
  FetchOptions options{.priority = Priority::kBackground,
                       .wanted = [fetch] { return fetch->awaited(); },
                       .keep = false,
                       .until = FetchOptions::Until::kInMemory};
  Task<Status> ensuring =
      shard_.fetcher.ensure(fetch, chunks.first, chunks.end(), std::move(options));
  const Status ensured = co_await ensuring;  // the reader itself gets errors
  window->release(chunks.count);
  if (ensured.ok()) fetch->aheadPause = {};
  // A chunk that cannot be kept is not tried again.
  if (ensured.ok() || ensured.code() == ErrorCode::kOutOfSpace) co_return;
  // A reader who comes back, or an origin that works again, begins here.
  fetch->cursor = std::min(fetch->cursor, chunks.first);
  if (ensured.code() == ErrorCode::kCancelled) co_return;
  fetch->aheadPause = std::max(fetch->aheadPause, kFirstFailedPause);
  if (fetch->prefetching || !fetch->awaited() || shard_.gate.closed()) co_return;
  fetch->prefetching = true;
  shard_.gate.spawn(prefetch(fetch));
}

}  // namespace hearth
