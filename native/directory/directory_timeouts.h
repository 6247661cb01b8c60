// How long an answer of a directory is waited for.
#pragma once

#include "transport/peer_transport.h"

namespace hearth {

// A directory that has been stopped keeps its askers for half a second from its stand-in.
inline RequestTimeouts directoryTimeouts() {
  return {Clock::now() + std::chrono::seconds(4), std::chrono::milliseconds(500)};
}

}  // namespace hearth
