#include "mount/demand_read.h"

#include "cache/verified_read.h"
#include "fetch/arrived_read.h"
#include "mount/resident_read.h"

namespace hearth {
namespace {

// Bytes of one chunk, from `loaded` or, when that is null, from the cache file.
Task<Result<MappedBytes>> readHere(Reactor& reactor, Fetcher& fetcher,
                                   std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                   std::uint64_t length, std::shared_ptr<LoadedChunk> loaded) {
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  if (loaded == nullptr) loaded = co_await fetcher.cacheLoads().coming(fetch->key(), chunk);
  if (loaded != nullptr) {
    const std::span<const std::byte> bytes = loaded->bytes.subspan(offset % kChunkBytes, length);
    co_return MappedBytes{bytes, std::move(loaded), {}, {}};
  }
  BandwidthLimiter& disk = fetcher.limits().disk;
  if (disk.limits(Priority::kDemand)) co_await disk.pass(reactor, length, Priority::kDemand);
  auto read = [fetch, offset, length] { return fromMemoryOrDisk(*fetch, offset, length); };
  co_return co_await callDisk(fetch->cache, std::move(read));
}

Task<Result<MappedBytes>> readChunk(Reactor& reactor, Fetcher& fetcher,
                                    std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                    std::uint64_t length, StillWanted wanted) {
  auto read = [&reactor, &fetcher, fetch, offset, length](std::shared_ptr<LoadedChunk> loaded) {
    return readHere(reactor, fetcher, fetch, offset, length, std::move(loaded));
  };
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  return readArrived(fetcher, std::move(fetch), chunk, std::move(read), std::move(wanted));
}

// Copies the bytes, so that no buffer is held while the rest of the read is waited for.
Task<void> copyPart(Reactor& reactor, Fetcher& fetcher, std::shared_ptr<FileFetch> fetch,
                    std::uint64_t offset, std::uint64_t length, StillWanted wanted,
                    Result<MappedBytes>& part) {
  part = co_await readChunk(reactor, fetcher, std::move(fetch), offset, length, std::move(wanted));
  if (part.ok()) part = copied(*part);
}

}  // namespace

Task<Result<MappedBytes>> readOnDemand(Reactor& reactor, Fetcher& fetcher,
                                       std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                       std::uint64_t length, StillWanted wanted) {
  const std::uint64_t first = std::min(length, kChunkBytes - offset % kChunkBytes);
  if (first == length) {
    co_return co_await readChunk(reactor, fetcher, fetch, offset, length, std::move(wanted));
  }
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  FetchOptions options;
  options.keep = false;
  [[maybe_unused]] const auto begun = fetcher.begin(fetch, chunk, chunk + 2, options);
  Result<MappedBytes> start = MappedBytes{};
  Result<MappedBytes> rest = MappedBytes{};
  Gate parts(reactor);
  parts.spawn(copyPart(reactor, fetcher, fetch, offset, first, wanted, start));
  parts.spawn(copyPart(reactor, fetcher, fetch, offset + first, length - first, wanted, rest));
  co_await parts.close();
  if (!start.ok()) co_return start;
  if (!rest.ok()) co_return rest;
  start->rest = rest->bytes;
  start->keepRest = std::move(rest->keep);
  co_return start;
}

}  // namespace hearth
