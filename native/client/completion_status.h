// The one table from errors of the engine to what callers of the C interface see: an errno that
// fits into 8 bits, and a class. docs/clients.md has the same table. Pure: any thread.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace hearth::gd2fs {

// xfer_gd2fs_completion.status; 0 for kOk.
[[nodiscard]] std::uint16_t statusOf(ErrorCode code);
[[nodiscard]] inline int errnoOf(ErrorCode code) { return statusOf(code) & 0xff; }
// Of what no retry mends: the path names something that cannot be read as a file.
[[nodiscard]] std::uint16_t requestStatus(int error);
// Of a process that has no memory for the request: ENOMEM.
[[nodiscard]] std::uint16_t memoryStatus();

}  // namespace hearth::gd2fs
