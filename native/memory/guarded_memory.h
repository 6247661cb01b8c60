// Reads and writes of memory that may vanish meanwhile: a page of a mapped file that its disk does
// not give, or memory of a program that another thread of it unmaps. The kernel then raises SIGBUS
// or SIGSEGV in the thread that touches it, which must not end the process. Any thread.
//
// The first call installs handlers for both signals, which pass on signals that are not of these
// calls. A program that later installs its own handler without calling ours is on its own. A
// library inside such a program had better install none (MemoryGuard).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "memory/memory_vector.h"

namespace hearth {

enum class MemoryGuard : std::uint8_t {
  kHandlers,
  // No handler is installed. The kernel is asked before a copy whether the memory can be written
  // (madvise(2), MADV_POPULATE_WRITE), or makes the copy where it does not say. Memory that goes in
  // the moment of a copy, or while its checksum is computed, ends the program by the signal, as the
  // program's own access would.
  kSystemCalls,
};
// Of this process, at first kHandlers. Before the first call of those below.
void chooseMemoryGuard(MemoryGuard guard);

// CRC32C of all of it, going on from `before`; nothing when a part is not there.
[[nodiscard]] std::optional<std::uint32_t> checksumIfThere(std::span<const std::byte> bytes,
                                                           std::uint32_t before = 0);
// Of [offset, offset + size), inside `memory`, which is host memory.
[[nodiscard]] std::optional<std::uint32_t> checksumIfThere(const MemoryVector& memory,
                                                           std::uint64_t offset, std::size_t size);

// Copies `from`, which stays there, to the start of `into`, which is at least as long. False: a
// part of `into` is not there or cannot be written; what was copied until then stays.
[[nodiscard]] bool copyIfThere(std::span<std::byte> into, std::span<const std::byte> from);
// The same to [offset, offset + the number of bytes), inside `memory`, which is host memory.
[[nodiscard]] bool copyIfThere(const MemoryVector& memory, std::uint64_t offset,
                               std::span<const std::byte> from);

}  // namespace hearth
