// Fixtures for tests of the cache: contents that follow from a key, and a cache over a file system.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "cache/open_content_cache.h"
#include "cache/residency_record.h"
#include "files/file_system.h"
#include "reactor/reactor.h"

namespace hearth::testing_support {

// The nth key of a test; its first byte is the same for each sixteenth, so that folders are shared.
inline ContentKey keyOf(std::uint64_t n) {
  ContentKey key;
  std::mt19937_64 random(n + 1);
  for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
  key.bytes[0] = static_cast<std::uint8_t>(n % 16);
  return key;
}

// The bytes of one chunk of a key: no two chunks of the same length are equal.
inline std::vector<std::byte> chunkData(const ContentKey& key, std::uint64_t size,
                                        std::uint32_t chunk) {
  std::vector<std::byte> data(chunkLength(size, chunk));
  std::mt19937_64 random(key.prefix() ^ (std::uint64_t{chunk} << 32));
  for (std::size_t i = 0; i < data.size(); i += 8) {
    const std::uint64_t value = random();
    std::memcpy(data.data() + i, &value, std::min<std::size_t>(8, data.size() - i));
  }
  return data;
}

inline std::vector<std::uint32_t> checksumsOf(std::span<const std::byte> data) {
  std::vector<std::uint32_t> checksums;
  for (std::size_t at = 0; at < data.size(); at += kBlockBytes) {
    checksums.push_back(
        crc32c(data.subspan(at, std::min<std::size_t>(kBlockBytes, data.size() - at))));
  }
  return checksums;
}

inline Task<Status> writeWhole(std::shared_ptr<CachedFile> file, std::uint32_t chunk) {
  const std::vector<std::byte> data = chunkData(file->key(), file->size(), chunk);
  const std::vector<std::uint32_t> checksums = checksumsOf(data);
  co_return co_await file->writeChunk(chunk, data, checksums);
}

// Acquires, writes all chunks and lets go.
inline Task<Status> fill(ContentCache& cache, ContentKey key, std::uint64_t size) {
  auto acquired = co_await cache.acquire(key, size, false);
  if (!acquired.ok()) co_return acquired.error();
  for (std::uint32_t chunk = 0; chunk < (*acquired)->chunkCount(); ++chunk) {
    const Status written = co_await writeWhole(*acquired, chunk);
    if (!written.ok()) co_return written;
  }
  // As a warm job does.
  if (size == 0) co_return co_await (*acquired)->claimed();
  co_return Status();
}

inline bool holds(CachedFile& file, std::uint32_t chunk) {
  const std::vector<std::byte> expected = chunkData(file.key(), file.size(), chunk);
  const auto found = file.verified(chunk * kChunkBytes, expected.size());
  return found.ok() && std::equal(found->begin(), found->end(), expected.begin());
}

}  // namespace hearth::testing_support
