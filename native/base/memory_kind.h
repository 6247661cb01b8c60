// The kind of memory behind an address. Part of the wire protocol (wire/memory_descriptor.h).
#pragma once

#include <cstdint>

namespace hearth {

enum class MemoryKind : std::uint8_t {
  kUnknown = 0,  // of a later release: cannot be used
  kHost = 1,
  kHugePage = 2,
  kGpu = 3,
  kFile = 4,
};

}  // namespace hearth
