// The header of a safetensors file, checked completely: code that walks an accepted header needs no
// further checks. Source: the format's description in huggingface/safetensors, README.md, and for
// all that it leaves open the format's own library, version 0.8.0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "loader/tensor_type.h"

namespace hearth {

// A file begins with the length of the header's JSON, 8 bytes, little-endian.
inline constexpr std::uint64_t kHeaderLengthBytes = 8;
// The format's own limit of the JSON.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct TensorEntry {
  std::string name;
  TensorType type = TensorType::kU8;
  std::vector<std::uint64_t> shape;
  // Bytes [begin, end) after the header.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] bool operator==(const TensorEntry&) const = default;
};

struct SafetensorsHeader {
  // In the order of their bytes, which they cover without holes and overlaps.
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// `json` without the 8 bytes before it; `dataBytes` are behind it in the file. Like the format's
// library, accepts `__metadata__: null`, ignores members of a tensor that it does not know, and
// takes the last of several tensors or metadata of one name. kCorrupt: the JSON is not what the
// format says, sizes overflow or do not fit type and shape, tensors overlap or leave holes, or the
// file is shorter or longer than they are. kUnsupported: an unknown type of elements. Pure, any
// thread.
[[nodiscard]] Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view json,
                                                               std::uint64_t dataBytes);

}  // namespace hearth
