// The bytes of session files that clients write. A descriptor here is open for reading alone, and
// is opened again for each call: between two calls nobody can write to the file, so that it can be
// sealed (docs/design/sessions.md). All block for the disk; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "engine/byte_ranges.h"
#include "memory/memory_vector.h"

namespace hearth {

// Writes all of `bytes`, which is host memory, from `offset` on.
[[nodiscard]] Status writeBytes(int file, std::uint64_t offset, const MemoryVector& bytes);
// An empty file without a name beside `file`.
[[nodiscard]] Result<OwnedFd> makeStage(int file);
// Copies [0, length) of `stage` to `offset` of `file`; shared where the file system can.
[[nodiscard]] Status copyBytes(int stage, int file, std::uint64_t offset, std::uint64_t length);
// Makes the ranges holes again. A file that ends behind `size` ends there afterwards.
[[nodiscard]] Status takeBack(int file, const ByteRanges& ranges, std::uint64_t size);
[[nodiscard]] Result<std::uint64_t> sizeOf(int file);

}  // namespace hearth
