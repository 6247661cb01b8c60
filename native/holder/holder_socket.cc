#include "holder/holder_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "holder/holder_protocol.h"

namespace hearth {
namespace {

using ControlBuffer = std::array<char, CMSG_SPACE(kMaxHolderDescriptors * sizeof(int))>;

void takeDescriptors(msghdr& message, std::vector<OwnedFd>& into) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      into.emplace_back(fd);
    }
  }
}

}  // namespace

Result<sockaddr_un> holderAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{
        ErrorCode::kInvalidArgument,
        "holder socket '" + path + "' is empty or longer than 107 bytes; give a shorter path"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool sendDatagram(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
                  int flags) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) ControlBuffer control{};
  const auto given = descriptors.first(std::min(descriptors.size(), kMaxHolderDescriptors));
  if (!given.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(given.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(given.size_bytes());
    std::memcpy(CMSG_DATA(header), given.data(), given.size_bytes());
  }
  return sendmsg(socket, &message, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

Result<HolderDatagram> receiveDatagram(int socket, int flags) {
  HolderDatagram datagram;
  datagram.bytes.resize(kMaxHolderMessage);
  iovec part{datagram.bytes.data(), datagram.bytes.size()};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Error{ErrorCode::kDeadlineExceeded, "the other side of the holder's socket is silent"};
    }
    return errnoError(errno, "receive from the holder's socket");
  }
  takeDescriptors(message, datagram.descriptors);
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return Error{ErrorCode::kProtocolError,
                 "a holder message is longer than " + std::to_string(kMaxHolderMessage) + " bytes"};
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "descriptors of a holder message did not arrive; raise the limit of open files"};
  }
  datagram.bytes.resize(static_cast<std::size_t>(size));
  return datagram;
}

}  // namespace hearth
