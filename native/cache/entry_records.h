// The records of an entry in the residency log. Any thread, except where CacheEntry says otherwise.
#pragma once

#include "cache/cache_entry.h"
#include "cache/residency_record.h"

namespace hearth {

[[nodiscard]] inline ResidencyRecord claimOf(const CacheEntry& entry, std::uint32_t chunk) {
  return {.type = RecordType::kClaim,
          .key = entry.key,
          .size = entry.size,
          .chunk = chunk,
          .blockChecksums = entry.blockChecksums(chunk)};
}

[[nodiscard]] inline std::uint64_t claimBytes(const CacheEntry& entry, std::uint32_t chunk) {
  return recordBytes(blocksOf(entry.chunkBytes(chunk)));
}

[[nodiscard]] inline ResidencyRecord verificationOf(const CacheEntry& entry,
                                                    const Sha256Digest& digest) {
  return {.type = RecordType::kVerified, .key = entry.key, .size = entry.size, .digest = digest};
}

}  // namespace hearth
