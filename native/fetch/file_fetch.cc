#include "fetch/file_fetch.h"

#include <algorithm>

namespace hearth {

void addToRuns(std::vector<ChunkRun>& runs, std::uint32_t chunk) {
  const bool extends = !runs.empty() && runs.back().end() == chunk &&
                       runs.back().count < kRunChunks &&
                       runs.back().stripe() == chunk / kChunksPerStripe;
  if (extends) {
    ++runs.back().count;
  } else {
    runs.push_back({chunk, 1});
  }
}

bool KeyFetch::awaited() const {
  return std::any_of(files.begin(), files.end(), [](const std::weak_ptr<FileFetch>& each) {
    const std::shared_ptr<FileFetch> file = each.lock();
    return file != nullptr && file->awaited();
  });
}

bool servableWhole(const FileFetch& fetch) {
  return fetch.cache->complete() &&
         (!fetch.reference.about.sourceDigest.has_value() || fetch.cache->verifiedWhole());
}

bool mayBeMixed(const FileFetch& fetch) {
  const ManifestEntry& about = fetch.reference.about;
  return about.sourceDigest.has_value() && about.validator.empty() && !fetch.cache->verifiedWhole();
}

bool readableNow(const FileFetch& fetch, std::uint64_t offset, std::uint64_t length) {
  if (!mayBeMixed(fetch)) return true;
  const auto first = static_cast<std::uint32_t>(offset / kChunkBytes);
  const auto end = static_cast<std::uint32_t>((offset + length - 1) / kChunkBytes) + 1;
  return fetch.shared->given.give(first, end, fetch.cache->chunkCount());
}

ChunkMask heldOf(const CachedFile& file, std::uint32_t stripe) {
  ChunkMask mask = 0;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    if (chunk < file.chunkCount() && file.resident(chunk)) mask |= bitOf(chunk);
  }
  return mask;
}

}  // namespace hearth
