// Records that the tests of the residency log share.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/testing/golden_bytes.h"
#include "cache/cache_testing.h"
#include "cache/residency_record.h"

namespace hearth::testing_support {

inline ResidencyRecord claim(std::uint64_t n, std::uint64_t size, std::uint32_t chunk) {
  ResidencyRecord record{RecordType::kClaim, keyOf(n), size, chunk, {}};
  record.blockChecksums.assign(blocksOf(chunkLength(size, chunk)), static_cast<std::uint32_t>(n));
  return record;
}

inline std::vector<std::byte> encode(const std::vector<ResidencyRecord>& records) {
  std::vector<std::byte> bytes;
  for (const ResidencyRecord& record : records) appendRecord(bytes, record);
  return bytes;
}

inline ResidencyRecord verification(std::uint64_t n, std::uint64_t size) {
  ResidencyRecord record{.type = RecordType::kVerified, .key = keyOf(n), .size = size};
  record.digest.fill(0xd1);
  return record;
}

// Makes the checksum right again, and the length if the record was made longer.
inline void seal(std::vector<std::byte>& record) {
  const auto length = static_cast<std::uint32_t>(record.size());
  std::memcpy(record.data() + 4, &length, 4);
  const std::uint32_t checksum = crc32c(std::span(record).subspan(4));
  std::memcpy(record.data(), &checksum, 4);
}

// A record of a type that no release knows.
inline std::vector<std::byte> unknown(bool optional) {
  std::vector<std::byte> record(24, std::byte{7});
  record[8] = std::byte{200};
  record[9] = std::byte(optional ? 1 : 0);
  seal(record);
  return record;
}

}  // namespace hearth::testing_support
