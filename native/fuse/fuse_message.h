// Reads requests from /dev/fuse. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/result.h"

namespace hearth {

// Holds any request of a mount that takes no WRITE (the longest is SETXATTR, with 64 KiB), and long
// lists of forgotten nodes.
inline constexpr std::size_t kFuseMessageBytes = 128 * 1024;

// The next request of the connection `device`, whose descriptor is non-blocking, in `buffer` of
// kFuseMessageBytes; none when there is none now. An error ends the connection: kCancelled when the
// mount was unmounted, kUnavailable when it was aborted.
[[nodiscard]] Result<std::optional<std::span<const std::byte>>> readFuseMessage(
    int device, std::span<std::byte> buffer);

}  // namespace hearth
