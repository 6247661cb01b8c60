// One record of a volume's log: all keys that one change puts and deletes. Records are numbered
// from 1 on without gaps; the number is the version of everything that the record puts.
//
// Little-endian:
//   0  u32  CRC32C of all that follows in this record
//   4  u32  bytes of the whole record, kHeaderBytes to kMaxRecordBytes
//   8  u8   version of this layout, 1; a later one is refused
//   9  u8   zero
//   10 u16  zero
//   12 u64  epoch of the leader that wrote it
//   20 u64  number
//   28 u32  changes; each is
//           u8 1 (put) or 2 (delete), u16 bytes of the key, key, and for a put u32 bytes, value
//   then optional fields (base/optional_fields.h), of which there are none yet
// value_codec.h has keys and values. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "namespace/value_codec.h"
#include "namespace/values.h"

namespace hearth::tree {

// A store takes so many as one value. The longest record is a rename with a publish whose lists
// were cut to pieces: see kMaxRuns, kMaxXattrBytes, kMaxKeptResults and kMaxCollected.
inline constexpr std::size_t kMaxRecordBytes = 256 * 1024;
inline constexpr std::size_t kHeaderBytes = 32;

struct Record {
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
  std::vector<KeyChange> changes;  // in the order in which they apply
  bool operator==(const Record&) const = default;
};

void appendRecord(Bytes& to, const Record& record);

enum class Parse : std::uint8_t {
  kGood,
  kCut,    // the bytes end before the record does, if its length is right
  kBad,    // its checksum differs or its fields contradict one another
  kLater,  // of a later release: what is from here on is not for this one
};

struct ParsedRecord {
  Parse kind = Parse::kBad;
  std::size_t bytes = 0;  // of a good one
  Record record;          // without the changes of optional kinds that this release does not know
};
// The record at the beginning of `from`.
[[nodiscard]] ParsedRecord parseRecord(std::span<const std::byte> from);

// The same with keys and values as they are, unknown ones included: views into `from`.
struct RawChange {
  std::span<const std::byte> key;
  std::optional<std::span<const std::byte>> value;  // none: a delete
};
struct RawRecord {
  Parse kind = Parse::kBad;
  std::size_t bytes = 0;
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
  std::vector<RawChange> changes;
};
[[nodiscard]] RawRecord parseRawRecord(std::span<const std::byte> from);

}  // namespace hearth::tree
