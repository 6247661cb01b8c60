#include "loader/tensor_type.h"

#include <algorithm>
#include <array>

namespace hearth {
namespace {

struct TypeFacts {
  std::string_view name;
  unsigned bits;
  unsigned alignment;
};

// In the order of TensorType.
constexpr std::array<TypeFacts, 22> kTypeFacts{{
    {"BOOL", 8, 1},        {"F4", 4, 1},          {"F6_E2M3", 6, 1}, {"F6_E3M2", 6, 1},
    {"U8", 8, 1},          {"I8", 8, 1},          {"F8_E5M2", 8, 1}, {"F8_E4M3", 8, 1},
    {"F8_E5M2FNUZ", 8, 1}, {"F8_E4M3FNUZ", 8, 1}, {"F8_E8M0", 8, 1}, {"I16", 16, 2},
    {"U16", 16, 2},        {"F16", 16, 2},        {"BF16", 16, 2},   {"I32", 32, 4},
    {"U32", 32, 4},        {"F32", 32, 4},        {"C64", 64, 4},    {"F64", 64, 8},
    {"I64", 64, 8},        {"U64", 64, 8},
}};
static_assert(kTypeFacts.size() == static_cast<std::size_t>(TensorType::kU64) + 1);

const TypeFacts& factsOf(TensorType type) { return kTypeFacts[static_cast<std::size_t>(type)]; }

}  // namespace

std::string_view tensorTypeName(TensorType type) { return factsOf(type).name; }

std::optional<TensorType> tensorTypeOf(std::string_view name) {
  const auto* found = std::ranges::find(kTypeFacts, name, &TypeFacts::name);
  if (found == kTypeFacts.end()) return std::nullopt;
  return static_cast<TensorType>(found - kTypeFacts.begin());
}

unsigned tensorTypeBits(TensorType type) { return factsOf(type).bits; }

unsigned tensorTypeAlignment(TensorType type) { return factsOf(type).alignment; }

}  // namespace hearth
