// Headers of frames: names, limits, checksums. What frame.h promises of them is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/frame.h"

namespace hearth {

// Writes the header of a frame whose body is in place behind kFrameHeaderBytes bytes. Pure.
[[nodiscard]] std::vector<std::byte> finishFrame(FrameType type, std::uint64_t requestId,
                                                 std::vector<std::byte> frame);

}  // namespace hearth
