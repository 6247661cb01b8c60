// TCP sockets of the transport: ownership, addresses, options. Non-blocking, any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "transport/peer_transport.h"

namespace hearth {

// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { reset(); }

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor. Nothing may be pending on it.
  void reset();
  // Ends pending calls, here and at the other side; the descriptor stays open.
  void shutDown() const { shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// kInvalidArgument unless the host is an IPv4 or IPv6 address (with %scope where needed). Names are
// not looked up here: that blocks.
[[nodiscard]] Result<SocketAddress> socketAddress(const PeerAddress& address);
// "10.0.0.1:7527" or "[fd00::1]:7527".
[[nodiscard]] std::string textOf(const PeerAddress& address);
// The local and the remote address of a socket; an empty host when the kernel does not say.
[[nodiscard]] PeerAddress localAddress(int fd);
[[nodiscard]] PeerAddress remoteAddress(int fd);
// One spelling for each address: as the kernel writes it, with IPv4 addresses never in IPv6 form.
// Other text stays as it is.
[[nodiscard]] std::string plainHost(const std::string& host);
// The hosts of all addresses of these peers, so spelt.
[[nodiscard]] std::set<std::string> hostsOf(const std::vector<PeerIdentity>& peers);
// The host that a connection comes from, for counting: its IPv4 address, or the first 64 bits of
// its IPv6 address, below which a host has as many addresses as it likes. "" when the connection
// has gone.
[[nodiscard]] std::string sourceOf(int fd);

[[nodiscard]] Result<Socket> openSocket(const SocketAddress& address);
// Sets the options of every connection of the protocol: no delay for small frames, and at most
// kUnsentSlices in the kernel that are not on their way, since nothing can overtake them. Leaves
// buffers to the kernel's tuning, which grows them to tcp_rmem and tcp_wmem; a fixed size would be
// capped far lower.
void tuneConnection(int fd);
// Sets the bound on unsent bytes for slices of that size.
void boundUnsent(int fd, std::uint32_t sliceBytes);
// Sends as much as the kernel takes at once: a courtesy before the connection ends, for which
// nothing waits.
void sendAtOnce(int fd, std::span<const std::byte> frame);

// The progress of the kernel's connection; zeros when it is no TCP connection.
struct TcpProgress {
  std::uint64_t received = 0;        // bytes of the stream that have come
  std::uint64_t acknowledged = 0;    // bytes of ours that have arrived
  bool unsent = false;               // the kernel holds bytes that it has not sent yet
  std::uint64_t bytesPerSecond = 0;  // that the kernel has measured lately
};
[[nodiscard]] TcpProgress tcpProgress(int fd);

}  // namespace hearth
