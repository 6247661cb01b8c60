// The addresses and messages of Unix sockets, as local_server.h and local_link.h use them. Any
// thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// Leaves room for the name of the socket before it is renamed.
inline constexpr std::size_t kMaxLocalPath = 90;

struct LocalAddress {
  sockaddr_un storage{};
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);
};

[[nodiscard]] inline Result<LocalAddress> localSocketAddress(const std::string& path) {
  LocalAddress address;
  address.storage.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.storage.sun_path)
    return Error{ErrorCode::kInvalidArgument, "the path of a socket, '" + path +
                                                  "', is empty or too long; choose a shorter one"};
  std::memcpy(address.storage.sun_path, path.data(), path.size());
  return address;
}

[[nodiscard]] inline OwnedFd openLocalSocket() {
  return OwnedFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// A message of bytes with at most one descriptor. Must not move while it is used.
class DescriptorMessage {
 public:
  // To receive into `bytes`, or to send them. `descriptor`: -1 sends none.
  explicit DescriptorMessage(std::span<const std::byte> bytes, int descriptor = -1)
      : part_{const_cast<std::byte*>(bytes.data()), bytes.size()} {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_.data();
    message_.msg_controllen = control_.size();
    if (descriptor < 0) return;
    cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  [[nodiscard]] msghdr* get() { return &message_; }
  // The descriptor that has come, after receiving; the kernel gives no more than fit.
  [[nodiscard]] OwnedFd descriptor() {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message_); header != nullptr;
         header = CMSG_NXTHDR(&message_, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      int fd = -1;
      if (header->cmsg_len < CMSG_LEN(sizeof fd)) continue;
      std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
      return OwnedFd(fd);
    }
    return OwnedFd();
  }
  // True: our table of open files had no room for a descriptor.
  [[nodiscard]] bool isCut() const { return (message_.msg_flags & MSG_CTRUNC) != 0; }

 private:
  iovec part_;
  msghdr message_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
};

}  // namespace hearth
