// Decides if a copy of a file may go: other agents must keep the bytes that have to stay. Pure: any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "directory/key_directory.h"

namespace hearth {

// Chunks by stripe; shorter means nothing more.
using HeldChunks = std::vector<ChunkMask>;

// All chunks of a file of so many bytes.
[[nodiscard]] bool complete(const HeldChunks& held, std::uint64_t size);

// `own` may go when `others` stay: one of them is complete, or none is and `own` is not either, and
// together they have all that it has. So a complete copy is never given up for parts of one.
[[nodiscard]] bool redundant(const HeldChunks& own, std::span<const HeldChunks> others,
                             std::uint64_t size);

}  // namespace hearth
