// Messages between the ranks of a node: packets of a Unix socket, each with at most one descriptor.
// Not a door: only the room uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

using RankDeadline = std::chrono::steady_clock::time_point;

// Listens at the abstract name of `group`, which other users have under another name.
// kAlreadyExists: somebody listens there.
[[nodiscard]] Result<OwnedFd> listenForRanks(const std::string& group);
// The next connection of a process of the same user. kDeadlineExceeded.
[[nodiscard]] Result<OwnedFd> acceptRank(int listener, RankDeadline deadline);
// Tries until somebody of the same user listens. kDeadlineExceeded.
[[nodiscard]] Result<OwnedFd> connectToRank(const std::string& group, RankDeadline deadline);

// `descriptor`: -1 sends none; the caller keeps it. kUnavailable: the other process has ended.
[[nodiscard]] Status sendPacket(int socket, std::span<const std::byte> packet, int descriptor = -1);
// Exactly `packet.size()` bytes, and the descriptor that came with them or none. kUnavailable: the
// other process has ended; kDeadlineExceeded; kCorrupt: a packet of another size.
[[nodiscard]] Result<OwnedFd> receivePacket(int socket, std::span<std::byte> packet,
                                            RankDeadline deadline);

}  // namespace hearth
