#include "mount/demand_read.h"

#include "mount/resident_read.h"

namespace hearth {
namespace {

// A block that is bad again after so many repairs is an error of the disk.
constexpr int kRepairs = 3;

// Bytes of one chunk.
Task<Result<MappedBytes>> readChunk(Reactor& reactor, Fetcher& fetcher,
                                    std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                    std::uint64_t length) {
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  Error last;
  for (int attempt = 0; attempt < kRepairs; ++attempt) {
    Task<Result<std::shared_ptr<LoadedChunk>>> arriving = fetcher.arrive(fetch, chunk);
    const Result<std::shared_ptr<LoadedChunk>> arrived = co_await arriving;
    if (!arrived.ok()) co_return arrived.error();
    if (*arrived != nullptr)
      co_return MappedBytes{
          (*arrived)->bytes.subspan(offset % kChunkBytes, length), *arrived, {}, {}};
    auto read = [fetch, offset, length] { return fromMemoryOrDisk(*fetch, offset, length); };
    auto reading = reactor.offload(read);
    Result<MappedBytes> bytes = co_await reading;
    if (bytes.ok()) co_return bytes;
    last = bytes.error();  // it is to be fetched again
  }
  co_return last;
}

// The same in memory of its own, so that no buffer is held while the rest of a read is waited for.
Task<void> copyPart(Reactor& reactor, Fetcher& fetcher, std::shared_ptr<FileFetch> fetch,
                    std::uint64_t offset, std::uint64_t length, Result<MappedBytes>& part) {
  Task<Result<MappedBytes>> reading = readChunk(reactor, fetcher, std::move(fetch), offset, length);
  part = co_await reading;
  if (part.ok()) part = copied(*part);
}

}  // namespace

Task<Result<MappedBytes>> readOnDemand(Reactor& reactor, Fetcher& fetcher,
                                       std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                       std::uint64_t length) {
  const std::uint64_t first = std::min(length, kChunkBytes - offset % kChunkBytes);
  if (first == length) {
    Task<Result<MappedBytes>> reading = readChunk(reactor, fetcher, fetch, offset, length);
    co_return co_await reading;
  }
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  FetchOptions options;
  options.keep = false;
  [[maybe_unused]] const auto begun = fetcher.begin(fetch, chunk, chunk + 2, options);
  Result<MappedBytes> start = MappedBytes{};
  Result<MappedBytes> rest = MappedBytes{};
  Gate parts(reactor);
  parts.spawn(copyPart(reactor, fetcher, fetch, offset, first, start));
  parts.spawn(copyPart(reactor, fetcher, fetch, offset + first, length - first, rest));
  Task<void> closing = parts.close();
  co_await closing;
  if (!start.ok()) co_return start;
  if (!rest.ok()) co_return rest;
  start->rest = rest->bytes;
  start->keepRest = std::move(rest->keep);
  co_return start;
}

}  // namespace hearth
