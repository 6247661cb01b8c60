// Bounds the descriptors that others make this process hold, so that mounts, cache files and
// origins always find one: sockets of a transport's shards take half of those that the process may
// have, connections and files of programs of the same node three eighths.
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

// Bounds of the socket for programs of this node (local_server.h).
struct LocalLimits {
  std::uint64_t connections, files;
};
[[nodiscard]] constexpr LocalLimits localLimits(std::uint64_t openFiles, LocalLimits most) {
  return {std::clamp<std::uint64_t>(openFiles / 8, 1, most.connections),
          std::clamp<std::uint64_t>(openFiles / 4, 1, most.files)};
}

// Descriptors that this process may have: RLIMIT_NOFILE.
[[nodiscard]] std::uint64_t openFileLimit();

}  // namespace hearth
