// One record of the residency log, and its bytes (docs/residency-log.md).
//
// Little-endian. Twelve bytes that every record has, then what belongs to its type, then what later
// versions may add to it, which is skipped:
//   0  u32  CRC32C of all that follows in this record
//   4  u32  bytes of the whole record: a multiple of 4, 12 to kMaxRecordBytes
//   8  u8   type (RecordType)
//   9  u8   flags; bit 0: who does not know the type skips the record, else refuses the log
//   10 u16  number of block checksums (claims: 1..64; else 0)
// Claims, drops, retractions and verifications:
//   12 u32  chunk (claims and retractions; else 0)
//   16 32   content key
//   48 u64  size of the key's bytes (claims and verifications; else 0)
//   56      claims: u32 for each block of the chunk, its CRC32C, in order
//           verifications: 32 bytes, the digest
// Beginnings of appends:
//   12 u64  where in the file this record stands
//   20 u64  bytes of the append, this record included
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"
#include "base/sha256.h"

namespace hearth {

inline constexpr std::uint32_t kBlocksPerChunk = kChunkBytes / kBlockBytes;

enum class RecordType : std::uint8_t {
  kClaim = 1,     // the chunk's bytes are in the cache file and have these block checksums
  kDrop = 2,      // nothing of the key is claimed any more
  kRetract = 3,   // this chunk is not claimed any more
  kVerified = 4,  // the whole file, all of which is claimed, was found to be what its digest says
  kDoubt = 5,     // something before this was lost: claims so far may have been taken back
  kAppend = 6,    // what follows, up to the next one, was written and synced in one go
};

struct ResidencyRecord {
  RecordType type = RecordType::kClaim;
  ContentKey key;
  std::uint64_t size = 0;
  std::uint32_t chunk = 0;
  std::vector<std::uint32_t> blockChecksums;
  // Verifications: SHA-256 that the origin gave; zeros: it gave none, and every block's checksum
  // was compared when it came.
  Sha256Digest digest{};
  std::uint64_t offset = 0;  // beginnings of appends, which have their length in `size`

  bool operator==(const ResidencyRecord&) const = default;
};

inline constexpr std::size_t kMaxRecordBytes = 65536;

// Bytes of a claim with that many block checksums, or of a drop or retraction with none.
[[nodiscard]] constexpr std::size_t recordBytes(std::size_t blockChecksums) {
  return 56 + 4 * blockChecksums;
}
inline constexpr std::size_t kVerificationBytes = 56 + 32;
inline constexpr std::size_t kDoubtBytes = 12;
inline constexpr std::size_t kAppendBytes = 12 + 16;

void appendRecord(std::vector<std::byte>& to, const ResidencyRecord& record);

// The record at the beginning of `from`.
struct ParsedRecord {
  enum class Kind : std::uint8_t {
    kRecord,
    kSkipped,  // of a type that we do not know and need not: `bytes` long
    kUnknown,  // of a type that we do not know and must: the log is not for us
    kCut,      // `from` ends before the record does, if the length that it begins with is right
    kBad,      // its checksum differs or its fields contradict one another
  };
  Kind kind = Kind::kBad;
  std::size_t bytes = 0;
  ResidencyRecord record;
};
[[nodiscard]] ParsedRecord parseRecord(std::span<const std::byte> from);
// The same for the records of version 1, all of whose types are known and have no length of their
// own: see the source.
[[nodiscard]] ParsedRecord parseRecordVersion1(std::span<const std::byte> from);

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
