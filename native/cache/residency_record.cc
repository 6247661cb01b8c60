#include "cache/residency_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

using Kind = ParsedRecord::Kind;

constexpr std::size_t kFramingBytes = 12;
constexpr std::size_t kFixedBytes = recordBytes(0);
constexpr std::uint8_t kOptional = 1;

template <class T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Of a record of a known type with that many block checksums.
std::size_t bytesOf(RecordType type, std::size_t blocks) {
  switch (type) {
    case RecordType::kClaim:
    case RecordType::kDrop:
    case RecordType::kRetract:
      return recordBytes(blocks);
    case RecordType::kVerified:
      return kVerificationBytes;
    case RecordType::kDoubt:
      return kDoubtBytes;
    case RecordType::kAppend:
      return kAppendBytes;
  }
  return kFramingBytes;
}

// Without a verification less is known, and nothing wrong; beginnings of appends only show damage.
bool optional(RecordType type) {
  return type == RecordType::kVerified || type == RecordType::kAppend;
}

bool known(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(RecordType::kClaim) &&
         type <= static_cast<std::uint8_t>(RecordType::kAppend);
}

bool plausible(const ResidencyRecord& record) {
  switch (record.type) {
    case RecordType::kClaim:
      return record.chunk < chunksOf(record.size) &&
             record.blockChecksums.size() == blocksOf(chunkLength(record.size, record.chunk));
    case RecordType::kDrop:
      return record.size == 0 && record.chunk == 0 && record.blockChecksums.empty();
    case RecordType::kRetract:
      return record.size == 0 && record.blockChecksums.empty();
    case RecordType::kVerified:
      return record.chunk == 0 && record.blockChecksums.empty();
    case RecordType::kDoubt:
    case RecordType::kAppend:
      return record.blockChecksums.empty();
  }
  return false;
}

}  // namespace

void appendRecord(std::vector<std::byte>& to, const ResidencyRecord& record) {
  const std::size_t begin = to.size();
  const std::size_t bytes = bytesOf(record.type, record.blockChecksums.size());
  to.resize(begin + bytes);
  std::byte* const at = to.data() + begin;
  put(at + 4, static_cast<std::uint32_t>(bytes));
  put(at + 8, static_cast<std::uint8_t>(record.type));
  put(at + 9, optional(record.type) ? kOptional : std::uint8_t{0});
  put(at + 10, static_cast<std::uint16_t>(record.blockChecksums.size()));
  if (record.type == RecordType::kAppend) {
    put(at + kFramingBytes, record.offset);
    put(at + kFramingBytes + 8, record.size);
  } else if (record.type != RecordType::kDoubt) {
    put(at + 12, record.chunk);
    std::memcpy(at + 16, record.key.bytes.data(), record.key.bytes.size());
    put(at + 48, record.size);
  }
  if (record.type == RecordType::kVerified) {
    std::memcpy(at + kFixedBytes, record.digest.data(), record.digest.size());
  } else if (!record.blockChecksums.empty()) {
    std::memcpy(at + kFixedBytes, record.blockChecksums.data(), 4 * record.blockChecksums.size());
  }
  put(at, crc32c({at + 4, bytes - 4}));
}

ParsedRecord parseRecord(std::span<const std::byte> from) {
  if (from.size() < 8) return {.kind = Kind::kCut};
  const std::byte* const at = from.data();
  const std::size_t bytes = get<std::uint32_t>(at + 4);
  if (bytes < kFramingBytes || bytes > kMaxRecordBytes || bytes % 4 != 0) return {};
  if (from.size() < bytes) return {.kind = Kind::kCut};
  if (get<std::uint32_t>(at) != crc32c({at + 4, bytes - 4})) return {};
  ParsedRecord parsed{.bytes = bytes};
  const auto type = get<std::uint8_t>(at + 8);
  if (!known(type)) {
    const bool skip = (get<std::uint8_t>(at + 9) & kOptional) != 0;
    parsed.kind = skip ? Kind::kSkipped : Kind::kUnknown;
    return parsed;
  }
  ResidencyRecord& record = parsed.record;
  record.type = static_cast<RecordType>(type);
  const std::size_t blocks = get<std::uint16_t>(at + 10);
  if (blocks > (record.type == RecordType::kClaim ? kBlocksPerChunk : 0)) return {};
  if (bytes < bytesOf(record.type, blocks)) return {};
  if (record.type == RecordType::kAppend) {
    record.offset = get<std::uint64_t>(at + kFramingBytes);
    record.size = get<std::uint64_t>(at + kFramingBytes + 8);
  } else if (record.type != RecordType::kDoubt) {
    record.chunk = get<std::uint32_t>(at + 12);
    std::memcpy(record.key.bytes.data(), at + 16, record.key.bytes.size());
    record.size = get<std::uint64_t>(at + 48);
  }
  if (record.type == RecordType::kVerified) {
    std::memcpy(record.digest.data(), at + kFixedBytes, record.digest.size());
  } else if (blocks != 0) {
    record.blockChecksums.resize(blocks);
    std::memcpy(record.blockChecksums.data(), at + kFixedBytes, 4 * blocks);
  }
  if (!plausible(record)) return {};
  parsed.kind = Kind::kRecord;
  return parsed;
}

//   0  u32  CRC32C of all that follows     4  u8   type     5  u8  zero
//   6  u16  number of block checksums      8  32   content key
//   40 u64  size    48 u32  chunk          52 u32  zero     56 u32 each  block checksums
ParsedRecord parseRecordVersion1(std::span<const std::byte> from) {
  if (from.size() < kFixedBytes) return {.kind = Kind::kCut};
  const std::byte* const at = from.data();
  const std::size_t blocks = get<std::uint16_t>(at + 6);
  const std::size_t bytes = recordBytes(blocks);
  if (blocks > kBlocksPerChunk) return {};
  if (from.size() < bytes) return {.kind = Kind::kCut};
  if (get<std::uint32_t>(at) != crc32c({at + 4, bytes - 4})) return {};
  const auto type = get<std::uint8_t>(at + 4);
  if (type > static_cast<std::uint8_t>(RecordType::kRetract)) return {};
  if (at[5] != std::byte{0} || get<std::uint32_t>(at + 52) != 0) return {};
  ParsedRecord parsed{.kind = Kind::kRecord, .bytes = bytes};
  parsed.record.type = static_cast<RecordType>(type);
  std::memcpy(parsed.record.key.bytes.data(), at + 8, parsed.record.key.bytes.size());
  parsed.record.size = get<std::uint64_t>(at + 40);
  parsed.record.chunk = get<std::uint32_t>(at + 48);
  parsed.record.blockChecksums.resize(blocks);
  if (blocks != 0) std::memcpy(parsed.record.blockChecksums.data(), at + kFixedBytes, 4 * blocks);
  if (!plausible(parsed.record)) return {};
  return parsed;
}

}  // namespace hearth
