#include "mount/resident_read.h"

#include <algorithm>

namespace hearth {
namespace {

// The part of a read that lies in one chunk, from memory.
std::optional<MappedBytes> inMemory(const FileFetch& fetch, std::uint64_t offset,
                                    std::uint64_t length) {
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  std::shared_ptr<LoadedChunk> loaded = fetch.loaded.find(chunk);
  if (loaded == nullptr) return std::nullopt;
  const std::span<const std::byte> bytes = loaded->bytes.subspan(offset % kChunkBytes, length);
  return MappedBytes{bytes, std::move(loaded), {}, {}};
}

Result<MappedBytes> inOneChunk(const FileFetch& fetch, std::uint64_t offset, std::uint64_t length) {
  if (auto loaded = inMemory(fetch, offset, length)) return std::move(*loaded);
  const auto bytes = fetch.cache->verified(offset, length);
  if (!bytes.ok()) return bytes.error();
  return MappedBytes{*bytes, fetch.cache, {}, {}};
}

// Bytes of one read in its first chunk; the rest is in the next.
std::uint64_t inFirstChunk(std::uint64_t offset, std::uint64_t length) {
  return std::min(length, kChunkBytes - offset % kChunkBytes);
}

MappedBytes joined(MappedBytes first, MappedBytes rest) {
  first.rest = rest.bytes;
  first.keepRest = std::move(rest.keep);
  return first;
}

}  // namespace

std::optional<MappedBytes> fromMemory(const FileFetch& fetch, std::uint64_t offset,
                                      std::uint64_t length) {
  const std::uint64_t first = inFirstChunk(offset, length);
  auto start = inMemory(fetch, offset, first);
  if (!start || first == length) return start;
  auto rest = inMemory(fetch, offset + first, length - first);
  if (!rest) return std::nullopt;
  return joined(std::move(*start), std::move(*rest));
}

Result<MappedBytes> fromMemoryOrDisk(const FileFetch& fetch, std::uint64_t offset,
                                     std::uint64_t length) {
  const std::uint64_t first = inFirstChunk(offset, length);
  Result<MappedBytes> start = inOneChunk(fetch, offset, first);
  if (!start.ok() || first == length) return start;
  Result<MappedBytes> rest = inOneChunk(fetch, offset + first, length - first);
  if (!rest.ok()) return rest;
  return joined(std::move(*start), std::move(*rest));
}

MappedBytes copied(const MappedBytes& bytes) {
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.bytes.begin(), bytes.bytes.end());
  copy->insert(copy->end(), bytes.rest.begin(), bytes.rest.end());
  const std::span<const std::byte> all(*copy);
  return {all, std::move(copy), {}, {}};
}

void noteTaken(MountShard& shard, const FileFetch& fetch, std::uint64_t offset,
               std::uint64_t length) {
  for (std::uint64_t at = offset; at < offset + length;) {
    const std::uint64_t part = inFirstChunk(at, offset + length - at);
    if (const auto loaded = fetch.loaded.find(static_cast<std::uint32_t>(at / kChunkBytes))) {
      loaded->takenAt.store(Clock::now(), std::memory_order_relaxed);
      const std::uint64_t before = loaded->taken.fetch_add(part, std::memory_order_relaxed);
      // The reader has taken the whole chunk: waiters may have its buffer.
      const bool all = before < loaded->bytes.size() && before + part >= loaded->bytes.size();
      if (all && !shard.servesBuffersSoon.exchange(true)) {
        shard.reactor.post([&shard] {
          // An exchange, not a plain store: what callers that found the flag set had taken is seen
          // below.
          shard.servesBuffersSoon.exchange(false);
          shard.originBuffers.serveWaiters();
          shard.peerBuffers.serveWaiters();
        });
      }
    }
    at += part;
  }
}

}  // namespace hearth
