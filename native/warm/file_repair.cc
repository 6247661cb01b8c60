#include "warm/file_repair.h"

#include "base/crc32c.h"
#include "cache/content_cache.h"

namespace hearth {
namespace {

// A disk that spoils a chunk so often is broken.
constexpr int kRepairs = 3;

std::vector<std::uint32_t> absentChunks(const CachedFile& file) {
  std::vector<std::uint32_t> absent;
  for (std::uint32_t chunk = 0; chunk < file.chunkCount(); ++chunk) {
    if (!file.resident(chunk)) absent.push_back(chunk);
  }
  return absent;
}

// A reader that finds a bad chunk looks no further than its first bad block.
void noteWhole(const CachedFile& file, std::uint32_t chunk, BadBlocks& bad) {
  constexpr std::uint64_t kBlocks = kChunkBytes / kBlockBytes;
  const std::uint64_t first = chunk * kBlocks;
  const std::uint64_t all = (file.size() + kBlockBytes - 1) / kBlockBytes;
  const std::uint64_t end = std::min(first + kBlocks, all);
  if (!bad.overlaps(first, end)) bad.add(first, end);
}

// Memory may have spoiled the bytes before they were written.
void dropSpoiled(FileFetch& fetch, std::uint32_t chunk) {
  const std::shared_ptr<LoadedChunk> loaded = fetch.loaded.find(chunk);
  if (loaded != nullptr && crc32cOfBlocks(loaded->bytes, kBlockBytes) != loaded->checksums)
    fetch.loaded.erase(chunk, *loaded);
}

}  // namespace

Task<Status> checkAndRepair(RepairPorts ports, std::shared_ptr<FileFetch> fetch,
                            RepairOptions options, BadBlocks& bad) {
  CachedFile& file = *fetch->cache;
  BandwidthLimiter& disk = ports.fetcher.limits().disk;
  const std::function<bool()> wanted = [&options] { return !options.fetch.unwanted(); };
  ScrubWatch watch;
  watch.checked = options.checked;
  watch.pace = [&disk, &reactor = ports.reactor, wanted](std::uint64_t bytes) {
    return disk.passWhile(reactor, bytes, Priority::kBackground, wanted);
  };
  watch.bad = [&bad](std::uint64_t block) { bad.add(block); };
  const Result<std::uint64_t> scrubbed = co_await file.scrub(watch);
  if (!scrubbed.ok()) co_return scrubbed.error();
  for (int repaired = 0;; ++repaired) {
    if (!wanted()) co_return Error{ErrorCode::kCancelled, "the file is not wanted any more"};
    const std::vector<std::uint32_t> absent = absentChunks(file);
    if (absent.empty()) break;
    for (const std::uint32_t chunk : absent) noteWhole(file, chunk, bad);
    if (repaired == kRepairs) {
      co_return Error{ErrorCode::kCorrupt,
                      "the cache file is bad again after each repair; check the disk of the cache "
                      "directory"};
    }
    for (const std::uint32_t chunk : absent) {
      dropSpoiled(*fetch, chunk);
      Task<bool> restoring = ports.memory.restore(fetch, chunk);
      [[maybe_unused]] const bool restored = co_await restoring;  // else it is fetched
    }
    FetchOptions fetching = options.fetch;
    Task<Status> ensuring = ports.fetcher.ensure(fetch, 0, file.chunkCount(), std::move(fetching));
    const Status ensured = co_await ensuring;
    if (!ensured.ok()) co_return ensured;
    for (const std::uint32_t chunk : absent) {
      const Result<std::uint32_t> again = co_await file.scrubChunk(chunk);
      if (!again.ok()) co_return again.error();
    }
  }
  // The chunks that were repaired are good, too.
  if (options.checked != nullptr) options.checked->fetch_add(file.size() - *scrubbed);
  co_return Status();
}

}  // namespace hearth
