#include "warm/file_digest.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "cache/verified_read.h"

namespace hearth {
Task<Result<Sha256Digest>> digestOf(Reactor& reactor, ThreadPool& pool, BandwidthLimiter& disk,
                                    std::shared_ptr<CachedFile> file,
                                    std::atomic<std::uint64_t>* hashed,
                                    std::function<bool()> wanted) {
  Sha256 hash;
  for (std::uint64_t offset = 0; offset < file->size(); offset += kChunkBytes) {
    const std::uint64_t length = std::min<std::uint64_t>(kChunkBytes, file->size() - offset);
    Task<bool> passing = disk.passWhile(reactor, length, Priority::kBackground, wanted);
    if (!co_await passing)
      co_return Error{ErrorCode::kCancelled, "the digest is not wanted any more"};
    const Result<std::span<const std::byte>> bytes = co_await readVerified(file, offset, length);
    if (!bytes.ok()) co_return bytes.error();
    auto take = [&hash, &bytes] { return hash.update(*bytes), 0; };
    co_await reactor.offload(pool, take);
    if (hashed != nullptr) hashed->fetch_add(length);
  }
  co_return hash.finish();
}

Task<Result<std::uint64_t>> compareWithOrigin(Reactor& reactor, OriginClient& origin,
                                              BufferPool& buffers, NodeLimits& limits,
                                              std::shared_ptr<FileFetch> fetch) {
  const FileReference& file = fetch->reference;
  const OriginExpectation expectation = file.expectation();
  std::uint64_t compared = 0;
  std::optional<Clock::time_point> yieldedAt;
  for (std::uint32_t chunk = 0; chunk < fetch->cache->chunkCount();) {
    Result<Location> location = co_await file.dataset->locations.find(reactor, file.about.index);
    if (!location.ok()) co_return location.error();
    if (!location->node.empty()) {
      co_return Error{ErrorCode::kUnsupported,
                      "a file of a volume has no origin beside the caches to compare it with"};
    }
    for (BandwidthLimiter* const limiter : {&limits.origin, &limits.disk}) {
      if (limiter->limits(Priority::kBackground))
        co_await limiter->pass(reactor, fetch->chunkSize(chunk), Priority::kBackground);
    }
    const std::vector<ChunkBuffer> buffer =
        co_await buffers.acquire(Priority::kBackground, 1, 0, file.dataset->id);
    const std::uint64_t offset = fetch->chunkOffset(chunk);
    const std::span<std::byte> theirs =
        buffer.front().first(static_cast<std::size_t>(fetch->chunkSize(chunk)));
    std::vector<std::span<std::byte>> pieces{theirs};
    std::function<void(std::size_t)> filled = [](std::size_t) {};
    std::function<bool()> memoryWanted = [&buffers, owner = file.dataset->id] {
      return buffers.shouldYield(owner);
    };
    Task<Status> fetching =
        origin.fetch(std::move(*location), expectation, file.about.objectOffset + offset,
                     std::move(pieces), std::move(filled), std::move(memoryWanted));
    const Status fetched = co_await fetching;
    if (fetched.code() == ErrorCode::kTryElsewhere) {  // slow, and others wait for the buffer
      if (!yieldedAt) yieldedAt = Clock::now();
      if (Clock::now() - *yieldedAt < kYieldingTimeout) continue;
    }
    if (!fetched.ok()) co_return fetched.error();
    yieldedAt.reset();
    Task<Result<std::span<const std::byte>>> reading =
        readVerified(fetch->cache, offset, theirs.size());
    const Result<std::span<const std::byte>> ours = co_await reading;
    if (!ours.ok()) co_return ours.error();
    const auto difference = std::mismatch(ours->begin(), ours->end(), theirs.begin());
    if (difference.first != ours->end()) {
      const auto at = offset + static_cast<std::uint64_t>(difference.first - ours->begin());
      co_return Error{ErrorCode::kCorrupt,
                      "byte " + std::to_string(at) + " differs from the origin's"};
    }
    compared += theirs.size();
    ++chunk;
  }
  co_return compared;
}

}  // namespace hearth
