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

ChunkMask heldOf(const CachedFile& file, std::uint32_t stripe) {
  ChunkMask mask = 0;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    if (chunk < file.chunkCount() && file.resident(chunk)) mask |= bitOf(chunk);
  }
  return mask;
}

}  // namespace hearth
