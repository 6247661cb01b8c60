// The header of a safetensors file, checked completely: whoever walks an accepted header needs no
// further checks. Source: the format's description in huggingface/safetensors, README.md.
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

// More would take more memory than the bytes of 100 MB that describe them seem to be worth; the
// largest files of models have some thousands.
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 18;

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

// `json` without the 8 bytes before it; `dataBytes` are behind it in the file. kCorrupt: the JSON
// is not what the format says, names are twice there, sizes overflow or do not fit type and shape,
// tensors overlap or leave holes, or the file is shorter or longer than they are. kUnsupported: an
// unknown type of elements, or too many tensors. Pure, any thread.
[[nodiscard]] Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view json,
                                                               std::uint64_t dataBytes);

}  // namespace hearth
