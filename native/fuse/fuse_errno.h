// Which errno an application sees for an error of ours. Any thread.
#pragma once

#include "base/generated/error_code.h"

namespace hearth {

// The errno of a reader whose bytes cannot be had.
[[nodiscard]] int readErrno(ErrorCode code);
// The errno of an ioctl whose advice is refused.
[[nodiscard]] int adviceErrno(ErrorCode code);

}  // namespace hearth
