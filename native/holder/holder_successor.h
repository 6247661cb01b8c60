// How a holder takes the place of the one before it, so that an upgrade keeps all mounts.
#pragma once

#include <string>

#include "base/result.h"
#include "holder/held_mounts.h"
#include "holder/holder_listener.h"

namespace hearth {

// Takes everything from the holder at the socket into `mounts`, and its lock and socket with it:
// nothing that can fail is left to do then, and that holder ends. Without a lock when no holder is
// there; without a socket when it is of a release that gives none.
//
// After an error the other holder has all that it had. It lets go when its last answer has been
// sent; who did not get that one asks the lock, which is free only when the other one is gone.
// kUnsupported when it cannot hand over: end it, and its agents give their mounts to the next one.
[[nodiscard]] Result<HolderListener> takeOver(const std::string& socketPath, HeldMounts& mounts);

}  // namespace hearth
