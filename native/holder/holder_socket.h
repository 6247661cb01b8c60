// Datagrams with descriptors over the holder's socket (unix(7)). Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

struct sockaddr_un;

namespace hearth {

struct HolderDatagram {
  std::vector<std::byte> bytes;  // empty: the other side has closed
  std::vector<OwnedFd> descriptors;
};

// The address of a socket; kInvalidArgument when the path is empty or longer than 107 bytes.
[[nodiscard]] Result<sockaddr_un> holderAddress(const std::string& path);

// `flags` as of send(2). Descriptors are copied. False, with errno, when it was not sent whole.
[[nodiscard]] bool sendDatagram(int socket, std::span<const std::byte> bytes,
                                std::span<const int> descriptors, int flags);

// One datagram of at most kMaxHolderMessage bytes; a longer one is kProtocolError, one whose
// descriptors found no room in our table of open files kUnavailable. kDeadlineExceeded when none
// came within the socket's time, or at once with MSG_DONTWAIT.
[[nodiscard]] Result<HolderDatagram> receiveDatagram(int socket, int flags);

}  // namespace hearth
