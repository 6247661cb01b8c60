// Counts the bytes that the engine's threads copy in user space. A program that links this has its
// own memcpy and memmove, also for the libraries that it uses: the count misses only copies that a
// compiler has turned into a few instructions. Not with sanitizers, which have their own.
#pragma once

#include <cstdint>

namespace hearth::testing_support {

// Bytes of copies of kCountedBytes or more, by threads whose name begins with "hearth-", since the
// program's start. Any thread.
[[nodiscard]] std::uint64_t copiedBytes();

inline constexpr std::uint64_t kCountedBytes = 2048;

}  // namespace hearth::testing_support
