// One record of the residency log, and its bytes. docs: see residency_log.h for the file around
// them.
//
// Little-endian; 56 bytes, then four bytes for each block checksum:
//   0  u32  CRC32C of all that follows in this record
//   4  u8   type (RecordType)
//   5  u8   zero
//   6  u16  number of block checksums (claims: 1..64; else 0)
//   8  32   content key
//   40 u64  size of the key's bytes (claims; else 0)
//   48 u32  chunk (claims and retractions; else 0)
//   52 u32  zero
//   56 u32  CRC32C of each block of the chunk, in order
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"

namespace hearth {

inline constexpr std::uint32_t kBlocksPerChunk = kChunkBytes / kBlockBytes;

enum class RecordType : std::uint8_t {
  kClaim = 1,    // the chunk's bytes are in the cache file and have these block checksums
  kDrop = 2,     // nothing of the key is claimed any more
  kRetract = 3,  // this chunk is not claimed any more
};

struct ResidencyRecord {
  RecordType type = RecordType::kClaim;
  ContentKey key;
  std::uint64_t size = 0;
  std::uint32_t chunk = 0;
  std::vector<std::uint32_t> blockChecksums;

  bool operator==(const ResidencyRecord&) const = default;
};

// Bytes of a record with that many block checksums.
[[nodiscard]] constexpr std::size_t recordBytes(std::size_t blockChecksums) {
  return 56 + 4 * blockChecksums;
}

void appendRecord(std::vector<std::byte>& to, const ResidencyRecord& record);

// The record at the beginning of `from` and its length. Nothing when it is cut off, its checksum
// differs or its fields contradict one another.
struct ParsedRecord {
  ResidencyRecord record;
  std::size_t bytes = 0;
};
[[nodiscard]] std::optional<ParsedRecord> parseRecord(std::span<const std::byte> from);

// Chunks and blocks of `size` bytes, and the bytes of one chunk.
[[nodiscard]] constexpr std::uint64_t chunksOf(std::uint64_t size) {
  return size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0);
}
[[nodiscard]] constexpr std::uint64_t chunkLength(std::uint64_t size, std::uint32_t chunk) {
  const std::uint64_t begin = chunk * kChunkBytes;
  return size - begin < kChunkBytes ? size - begin : kChunkBytes;
}
[[nodiscard]] constexpr std::uint32_t blocksOf(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kBlockBytes - 1) / kBlockBytes);
}

}  // namespace hearth
