#include "cache/residency_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

constexpr std::size_t kFixedBytes = recordBytes(0);

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

bool plausible(const ResidencyRecord& record) {
  switch (record.type) {
    case RecordType::kClaim:
      return record.chunk < chunksOf(record.size) &&
             record.blockChecksums.size() == blocksOf(chunkLength(record.size, record.chunk));
    case RecordType::kDrop:
      return record.size == 0 && record.chunk == 0 && record.blockChecksums.empty();
    case RecordType::kRetract:
      return record.size == 0 && record.blockChecksums.empty();
  }
  return false;
}

}  // namespace

void appendRecord(std::vector<std::byte>& to, const ResidencyRecord& record) {
  const std::size_t begin = to.size();
  const std::size_t bytes = recordBytes(record.blockChecksums.size());
  to.resize(begin + bytes);
  std::byte* const at = to.data() + begin;
  put(at + 4, static_cast<std::uint8_t>(record.type));
  put(at + 6, static_cast<std::uint16_t>(record.blockChecksums.size()));
  std::memcpy(at + 8, record.key.bytes.data(), record.key.bytes.size());
  put(at + 40, record.size);
  put(at + 48, record.chunk);
  if (!record.blockChecksums.empty()) {
    std::memcpy(at + kFixedBytes, record.blockChecksums.data(), 4 * record.blockChecksums.size());
  }
  put(at, crc32c({at + 4, bytes - 4}));
}

std::optional<ParsedRecord> parseRecord(std::span<const std::byte> from) {
  if (from.size() < kFixedBytes) return std::nullopt;
  const std::byte* const at = from.data();
  const std::size_t blocks = get<std::uint16_t>(at + 6);
  const std::size_t bytes = recordBytes(blocks);
  if (blocks > kBlocksPerChunk || from.size() < bytes) return std::nullopt;
  if (get<std::uint32_t>(at) != crc32c({at + 4, bytes - 4})) return std::nullopt;
  if (at[5] != std::byte{0} || get<std::uint32_t>(at + 52) != 0) return std::nullopt;
  ParsedRecord parsed;
  parsed.bytes = bytes;
  parsed.record.type = static_cast<RecordType>(at[4]);
  std::memcpy(parsed.record.key.bytes.data(), at + 8, parsed.record.key.bytes.size());
  parsed.record.size = get<std::uint64_t>(at + 40);
  parsed.record.chunk = get<std::uint32_t>(at + 48);
  parsed.record.blockChecksums.resize(blocks);
  if (blocks != 0) std::memcpy(parsed.record.blockChecksums.data(), at + kFixedBytes, 4 * blocks);
  if (!plausible(parsed.record)) return std::nullopt;
  return parsed;
}

}  // namespace hearth
