// The element types that a safetensors file may name, and their sizes. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth {

enum class TensorType : std::uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E5M2Fnuz,
  kF8E4M3Fnuz,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// The name in the file: "BF16".
[[nodiscard]] std::string_view tensorTypeName(TensorType type);
[[nodiscard]] std::optional<TensorType> tensorTypeOf(std::string_view name);
// Bits of one element: 4 and 6 for types that are packed.
[[nodiscard]] unsigned tensorTypeBits(TensorType type);
// Bytes to whose multiples the address of a tensor is aligned for processors: 1 to 8.
[[nodiscard]] unsigned tensorTypeAlignment(TensorType type);

}  // namespace hearth
