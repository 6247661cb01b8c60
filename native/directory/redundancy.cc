#include "directory/redundancy.h"

#include <algorithm>

namespace hearth {
namespace {

// Of the stripe that begins at chunk `first`.
ChunkMask chunksOfStripe(std::uint64_t first, std::uint64_t chunks) {
  const std::uint64_t count = std::min<std::uint64_t>(chunks - first, kChunksPerStripe);
  return static_cast<ChunkMask>((1u << count) - 1);
}

}  // namespace

bool complete(const HeldChunks& held, std::uint64_t size) {
  const std::uint64_t chunks = (size + kChunkBytes - 1) / kChunkBytes;
  for (std::uint64_t first = 0; first < chunks; first += kChunksPerStripe) {
    const std::size_t stripe = first / kChunksPerStripe;
    const ChunkMask all = chunksOfStripe(first, chunks);
    if (stripe >= held.size() || (held[stripe] & all) != all) return false;
  }
  return true;
}

bool redundant(const HeldChunks& own, std::span<const HeldChunks> others, std::uint64_t size) {
  const bool whole = std::any_of(others.begin(), others.end(),
                                 [&](const HeldChunks& other) { return complete(other, size); });
  if (whole || complete(own, size)) return whole;
  for (std::size_t stripe = 0; stripe < own.size(); ++stripe) {
    ChunkMask elsewhere = 0;
    for (const HeldChunks& other : others) {
      if (stripe < other.size()) elsewhere |= other[stripe];
    }
    if ((own[stripe] & ~elsewhere) != 0) return false;
  }
  return true;
}

}  // namespace hearth
