// The bytes of keys and values, in records and in checkpoints.
//
// A key is its kind (u8) and its fields, big-endian and without lengths, so that keys sort by bytes
// as their fields do: an agent's number (u32), an incarnation (16 bytes), a change's number (u64),
// an inode (u64), a cookie (u64), garbage's record (u64) and index (u32); an attribute's name is
// the rest of its key. A value is little-endian: its type's fields in the order of values.h, then
// optional fields (base/optional_fields.h), of which there are none yet; a reader passes over those
// that it does not know. Pure functions: any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "namespace/values.h"

namespace hearth::tree {

using Bytes = std::vector<std::byte>;

// Append to `to`.
void encodeKey(const Key& key, Bytes& to);
// The value is no monostate.
void encodeValue(const Value& value, Bytes& to);

enum class Decoded : std::uint8_t {
  kGood,
  kSkipped,  // of an optional kind that this release does not know
  kBad,      // no release writes this
  kLater,    // of a later release, and must be understood
};

// `value`: none for a delete.
[[nodiscard]] Decoded decodeChange(std::span<const std::byte> key,
                                   std::optional<std::span<const std::byte>> value,
                                   KeyChange& into);

// 1 to kMaxNameBytes bytes without '/' and NUL, neither "." nor "..".
[[nodiscard]] bool isName(std::string_view name);
// The runs are as many chunks as the length needs (unless they are of a list), at most kMaxRuns,
// and each of them can be.
[[nodiscard]] bool isPlausible(const Content& content);

}  // namespace hearth::tree
