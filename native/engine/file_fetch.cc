#include "engine/file_fetch.h"

namespace hearth {

ChunkMask FileFetch::held(std::uint32_t stripe) const {
  ChunkMask mask = 0;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    if (chunk < cache->chunkCount() && cache->resident(chunk))
      mask |= static_cast<ChunkMask>(1u << i);
  }
  return mask;
}

}  // namespace hearth
