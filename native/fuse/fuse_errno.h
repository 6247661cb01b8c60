// Which errno an application sees for an error of ours. Any thread.
#pragma once

#include "base/generated/error_code.h"

namespace hearth {

// What a reader sees when its bytes cannot be had.
[[nodiscard]] int readErrno(ErrorCode code);
// What the caller of the ioctl sees when its advice is not taken.
[[nodiscard]] int adviceErrno(ErrorCode code);

}  // namespace hearth
