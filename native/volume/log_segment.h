// One file of a volume's log: a head, then groups of records. A group is written in one go. It
// begins with the place where it stands, and says how much of the file was synced before. So damage
// that a later group calls synced is bits that have rotted; all other damage is a write that a
// crash cut short, and ends the log.
//
// Little-endian. Head, 64 bytes:
//   0  8 bytes "HRTHVLOG"     8  u32 version 1      12 u32 zero
//   16 16 bytes store         32 16 bytes volume    48 u64 number of the first record
//   56 u32 zero               60 u32 CRC32C of the 60 bytes before
// Group, 24 bytes and its records (namespace/record.h):
//   0  u32 CRC32C of the 20 bytes that follow       4  u32 bytes of the whole group
//   8  u64 where in the file it stands              16 u64 bytes of the file that were synced
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "namespace/ids.h"
#include "namespace/record.h"
#include "volume/background.h"

namespace hearth {

inline constexpr std::size_t kSegmentHeadBytes = 64;
inline constexpr std::size_t kGroupHeadBytes = 24;
// Records of more bytes are several groups.
inline constexpr std::size_t kMaxGroupBytes = std::size_t{4} << 20;
// The longest group: its last record may begin just before kMaxGroupBytes.
inline constexpr std::size_t kMostGroupBytes =
    kGroupHeadBytes + kMaxGroupBytes + tree::kMaxRecordBytes;

struct SegmentHead {
  tree::WideId store{};
  tree::WideId volume{};
  std::uint64_t firstRecord = 0;
  bool operator==(const SegmentHead&) const = default;
};

using HeadMagic = std::array<std::uint8_t, 8>;
inline constexpr HeadMagic kSegmentMagic{'H', 'R', 'T', 'H', 'V', 'L', 'O', 'G'};

[[nodiscard]] std::vector<std::byte> encodeSegmentHead(const SegmentHead& head,
                                                       const HeadMagic& magic = kSegmentMagic);
enum class HeadKind : std::uint8_t { kGood, kTorn, kLater };
[[nodiscard]] HeadKind decodeSegmentHead(std::span<const std::byte> bytes, SegmentHead& head,
                                         const HeadMagic& magic = kSegmentMagic);
// Of a group with `recordBytes` bytes of records that stands at `offset`, when the first `synced`
// bytes of the file are durable.
[[nodiscard]] std::vector<std::byte> encodeGroupHead(std::uint64_t offset, std::uint64_t synced,
                                                     std::size_t recordBytes);
// Where the group stands with whose head the bytes begin; none: they begin with no such head.
[[nodiscard]] std::optional<std::uint64_t> groupOffset(std::span<const std::byte> bytes);

struct SegmentReport {
  std::optional<SegmentHead> head;  // none: it was torn while the file was made, before any record
  std::uint64_t goodBytes = 0;      // end of the last whole group
  std::uint64_t lastRecord = 0;  // of the last whole group; the first's number less 1 without one
  bool torn = false;             // there are bytes behind goodBytes
};

// Gives each record of the whole groups to `each` with which the bytes begin, when they follow what
// the report tells, and moves the report behind them. Errors as those of readSegment.
[[nodiscard]] Status takeGroups(std::span<const std::byte> bytes, SegmentReport& report,
                                const std::function<Status(std::span<const std::byte>)>& each,
                                const std::string& path);

// Gives the bytes of each record of whole groups to `each`, in order and in the background; their
// numbers have no gaps. `path` is for messages. kCorrupt: bits have rotted. kUnsupported: a later
// release wrote it. Else the file's error, or the first one of `each`. The file is not changed.
[[nodiscard]] Task<Result<SegmentReport>> readSegment(
    Background background, File& file, std::string path,
    std::function<Status(std::span<const std::byte>)> each);

}  // namespace hearth
