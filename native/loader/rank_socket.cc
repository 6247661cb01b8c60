#include "loader/rank_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

namespace hearth {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{10};

struct RankAddress {
  sockaddr_un storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// An abstract name: its first byte is 0, and no file bears it.
Result<RankAddress> addressOf(const std::string& group) {
  const std::string name = "hearth-load-" + std::to_string(geteuid()) + "-" + group;
  RankAddress address;
  if (name.size() + 1 > sizeof address.storage.sun_path) {
    return Error{ErrorCode::kInvalidArgument,
                 "the name of the group has more than 80 bytes; choose a shorter one"};
  }
  address.storage.sun_family = AF_UNIX;
  std::memcpy(address.storage.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool isOfThisUser(const OwnedFd& socket) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         peer.uid == geteuid();
}

Error late() { return {ErrorCode::kDeadlineExceeded, "the other ranks did not answer in time"}; }

Error ended() { return {ErrorCode::kUnavailable, "its process has ended"}; }

// Returns when `socket` can be read from or has ended.
Status awaitInput(int socket, RankDeadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return late();
    pollfd waiting{socket, POLLIN, 0};
    const auto most = std::min<std::int64_t>(left.count(), 60'000);
    const int ready = poll(&waiting, 1, static_cast<int>(most));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return errnoError(errno, "poll for other ranks");
  }
}

}  // namespace

Result<OwnedFd> listenForRanks(const std::string& group) {
  const auto address = addressOf(group);
  if (!address) return address.error();
  OwnedFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener) return errnoError(errno, "open a socket for other ranks");
  if (bind(listener.get(), address->get(), address->bytes) != 0) {
    if (errno != EADDRINUSE) return errnoError(errno, "bind a socket for other ranks");
    return Error{ErrorCode::kAlreadyExists,
                 "another rank 0 loads as group '" + group + "'; give each job a group of its own"};
  }
  if (listen(listener.get(), SOMAXCONN) != 0) return errnoError(errno, "listen for other ranks");
  return listener;
}

Result<OwnedFd> acceptRank(int listener, RankDeadline deadline) {
  for (;;) {
    if (const Status ready = awaitInput(listener, deadline); !ready) return ready.error();
    OwnedFd accepted(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted && isOfThisUser(accepted)) return accepted;
    if (!accepted && errno != EINTR && errno != ECONNABORTED) {
      return errnoError(errno, "accept another rank");
    }
  }
}

Result<OwnedFd> connectToRank(const std::string& group, RankDeadline deadline) {
  const auto address = addressOf(group);
  if (!address) return address.error();
  for (;;) {
    OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return errnoError(errno, "open a socket for rank 0");
    if (connect(socket.get(), address->get(), address->bytes) == 0) {
      if (isOfThisUser(socket)) return socket;
      return Error{ErrorCode::kPermissionDenied,
                   "another user's process listens as rank 0 of group '" + group + "'"};
    }
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return errnoError(errno, "connect to rank 0");
    }
    if (std::chrono::steady_clock::now() >= deadline) return late();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

Status sendPacket(int socket, std::span<const std::byte> packet, int descriptor) {
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return ended();
    if (errno != EINTR) return errnoError(errno, "send to another rank");
  }
  return {};
}

Result<OwnedFd> receivePacket(int socket, std::span<std::byte> packet, RankDeadline deadline) {
  if (const Status ready = awaitInput(socket, deadline); !ready) return ready.error();
  iovec part{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return ended();
  if (got < 0) return errnoError(errno, "receive from another rank");
  OwnedFd descriptor;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    descriptor.reset(fd);
  }
  if (static_cast<std::size_t>(got) != packet.size() || (message.msg_flags & MSG_TRUNC) != 0) {
    return Error{ErrorCode::kCorrupt,
                 "another rank sends something else; use the same version of hearth everywhere"};
  }
  return descriptor;
}

}  // namespace hearth
