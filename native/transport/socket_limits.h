// Bounds the accepted sockets of a transport: all shards together hold at most half of the
// descriptors that the process may have, so that files and origins always find one. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/limits.h"

namespace hearth {

// Bounds of one shard. `unauthenticated` does not include the known addresses of agents.
struct SocketLimits {
  std::size_t arriving = kArriving;
  std::size_t unauthenticated = kMaxUnauthenticated;
  std::size_t connections = kConnections;
};

[[nodiscard]] constexpr SocketLimits socketLimits(std::uint64_t openFiles, std::uint32_t shards) {
  const std::uint64_t most = std::max<std::uint64_t>(openFiles / 2 / std::max(shards, 1u), 4);
  const auto part = [most](std::uint64_t divisor, std::size_t bound) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(most / divisor, bound));
  };
  return {part(4, kArriving), part(4, kMaxUnauthenticated), part(2, kConnections)};
}

}  // namespace hearth
