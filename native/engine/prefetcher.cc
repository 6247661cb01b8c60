#include "engine/prefetcher.h"

#include <algorithm>

#include "engine/fetcher.h"

namespace hearth {
namespace {

// Read-ahead of one file in flight.
constexpr std::uint32_t kWindowChunks = 16;
// What is fetched of the files behind one that is read to its end.
constexpr std::uint64_t kLookAheadBytes = 64u << 20;
constexpr std::uint32_t kLookAheadFiles = 16;
// On one shard, of all readers.
constexpr std::size_t kMostExpected = 256;
// How long they are kept for their reader when they have come, or when the reader of the file
// before has left: it may be on its way from one to the other.
constexpr auto kLookAheadPatience = std::chrono::seconds(2);
// How often it is looked whether the cache keeps chunks again.
constexpr auto kRefusedPause = std::chrono::milliseconds(100);
constexpr auto kLookAheadTick = std::chrono::milliseconds(50);

}  // namespace

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
  shard_.gate->spawn(prefetch(fetch));
}

Task<void> Prefetcher::prefetch(std::shared_ptr<FileFetch> fetch) {
  const auto window = std::make_shared<Semaphore>(*shard_.reactor, kWindowChunks);
  while (fetch->cursor < fetch->horizon && fetch->awaited() && !shard_.gate->closed()) {
    const std::uint32_t chunk = fetch->cursor;
    if (fetch->cache->resident(chunk) || fetch->flights.contains(chunk)) {
      ++fetch->cursor;
      continue;
    }
    // What cannot be kept is fetched when its reader comes to it, and no earlier.
    if (fetch->cache->refuses(chunk)) {
      if (fetch->readers.load() == 0) break;
      co_await shard_.reactor->sleep(kRefusedPause);
      continue;
    }
    const std::uint32_t count =
        std::min({kRunChunks, fetch->horizon - chunk, kChunksPerStripe - chunk % kChunksPerStripe});
    co_await window->acquire(count);
    fetch->cursor = std::max(fetch->cursor, chunk + count);
    shard_.gate->spawn(prefetchRun(fetch, {chunk, count}, window));
  }
  fetch->prefetching = false;
  const bool toItsEnd = fetch->cursor == fetch->cache->chunkCount();
  if (toItsEnd && fetch->readers.load() != 0 && !fetch->lookedAhead) {
    fetch->lookedAhead = true;
    lookAhead(fetch);
  }
}

void Prefetcher::lookAhead(const std::shared_ptr<FileFetch>& fetch) {
  const FileReference& file = fetch->reference;
  const Manifest& manifest = *file.dataset->manifest;
  const ManifestEntry folder = manifest.entry(file.about.parent);
  const std::uint32_t end =
      std::min(folder.firstChild + folder.childCount, file.about.index + 1 + kLookAheadFiles);
  std::uint64_t left = kLookAheadBytes;
  for (std::uint32_t index = file.about.index + 1; index < end && left != 0; ++index) {
    FileReference next = FileReference::of(file.dataset, index);
    if (next.about.kind != EntryKind::kFile || next.about.size == 0) continue;
    if (shard_.commons.cache->residentBytes(next.about.key) == next.about.size) continue;
    const std::uint64_t length = std::min(left, next.about.size);
    left -= length;
    Shard& owner = shard_.commons.owner(next.about.key);
    owner.reactor->post(
        [&owner, next = std::move(next), length, before = std::weak_ptr<FileFetch>(fetch)] {
          Prefetcher& prefetcher = *owner.prefetcher;
          if (owner.gate->closed() || prefetcher.expected_ >= kMostExpected) return;
          ++prefetcher.expected_;
          owner.gate->spawn(prefetcher.fetchStart(next, length, before));
        });
  }
}

Task<void> Prefetcher::fetchStart(FileReference file, std::uint64_t length,
                                  std::weak_ptr<FileFetch> before) {
  Task<Result<std::shared_ptr<FileFetch>>> opening = shard_.fetcher->open(std::move(file));
  const Result<std::shared_ptr<FileFetch>> opened = co_await opening;
  if (opened.ok()) {  // else whoever reads it will hear of it
    const std::shared_ptr<FileFetch> fetch = *opened;
    ++fetch->expecting;
    willNeed(fetch, 0, length);
    Task<void> expecting = expectReader(fetch, std::move(before));
    co_await expecting;
    --fetch->expecting;
  }
  --expected_;
}

Task<void> Prefetcher::expectReader(std::shared_ptr<FileFetch> fetch,
                                    std::weak_ptr<FileFetch> before) {
  auto until = Clock::now() + kLookAheadPatience;
  while (Clock::now() < until && !shard_.gate->closed()) {
    co_await shard_.reactor->sleep(kLookAheadTick);
    const bool coming = fetch->prefetching || !fetch->flights.empty();
    const std::shared_ptr<FileFetch> read = before.lock();
    if (coming && read != nullptr && read->readers.load() != 0) {
      until = Clock::now() + kLookAheadPatience;
    }
  }
}

Task<void> Prefetcher::prefetchRun(std::shared_ptr<FileFetch> fetch, ChunkRun chunks,
                                   std::shared_ptr<Semaphore> window) {
  FetchOptions options{.priority = Priority::kBackground,
                       .wanted = [fetch] { return fetch->awaited(); },
                       .keep = false};
  Task<Status> ensuring =
      shard_.fetcher->ensure(fetch, chunks.first, chunks.end(), std::move(options));
  const Status ensured = co_await ensuring;  // of errors the reader itself will hear
  // Given up because nobody was there: a reader who comes back begins here.
  if (ensured.code() == ErrorCode::kCancelled) {
    fetch->cursor = std::min(fetch->cursor, chunks.first);
  }
  window->release(chunks.count);
}

}  // namespace hearth
