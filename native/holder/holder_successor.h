// How a holder takes the place of the one before it, so that an upgrade keeps all mounts.
#pragma once

#include <string>

#include "base/result.h"
#include "holder/held_mounts.h"

namespace hearth {

// Takes everything from the holder at the socket into `mounts`; that holder ends. Fine when there
// is none, which is told by kUnavailable. kUnsupported when it cannot hand over: end it, and its
// agents give their mounts to the next one.
[[nodiscard]] Status takeOver(const std::string& socketPath, HeldMounts& mounts);

}  // namespace hearth
