#include "transport/socket.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/limits.h"

namespace hearth {
namespace {

PeerAddress addressFrom(const sockaddr_storage& storage, socklen_t size) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host,
                                sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return {};
  return {host, static_cast<std::uint16_t>(std::stoul(port))};
}

}  // namespace

void Socket::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Result<SocketAddress> socketAddress(const PeerAddress& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0 || found == nullptr) {
    return Error{ErrorCode::kInvalidArgument,
                 "\"" + address.host +
                     "\" is not an IP address; give the address of a network "
                     "interface, such as 10.0.0.1 or fd00::1"};
  }
  SocketAddress result;
  result.size = found->ai_addrlen;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return result;
}

std::string textOf(const PeerAddress& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

PeerAddress localAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return addressFrom(storage, size);
}

PeerAddress remoteAddress(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  return addressFrom(storage, size);
}

std::string plainHost(const std::string& host) {
  const Result<SocketAddress> address = socketAddress({host, 0});
  if (!address.ok()) return host;
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address->storage);
  if (address->storage.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    char text[INET_ADDRSTRLEN];
    return inet_ntop(AF_INET, six.sin6_addr.s6_addr + 12, text, sizeof text);
  }
  return addressFrom(address->storage, address->size).host;
}

std::set<std::string> hostsOf(const std::vector<PeerIdentity>& peers) {
  std::set<std::string> hosts;
  for (const PeerIdentity& peer : peers) {
    for (const PeerAddress& address : peer.addresses) hosts.insert(plainHost(address.host));
  }
  return hosts;
}

std::string sourceOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  auto& six = reinterpret_cast<sockaddr_in6&>(storage);
  if (storage.ss_family != AF_INET6) return addressFrom(storage, size).host;
  std::byte* const address = reinterpret_cast<std::byte*>(&six.sin6_addr);
  // An IPv4 address in IPv6 form identifies its host by the last 32 bits.
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return addressFrom(storage, size).host;
  std::memset(address + 8, 0, 8);
  return addressFrom(storage, size).host + "/64";
}

Result<Socket> openSocket(const SocketAddress& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return errnoError(errno, "open a socket");
  return socket;
}

void tuneConnection(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  boundUnsent(fd, kSliceToSendBytes);
}

void boundUnsent(int fd, std::uint32_t sliceBytes) {
  const std::uint32_t unsent = kUnsentSlices * sliceBytes;
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

void sendAtOnce(int fd, std::span<const std::byte> frame) {
  send(fd, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

TcpProgress tcpProgress(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {info.tcpi_bytes_received, info.tcpi_bytes_acked, info.tcpi_notsent_bytes > 0,
          info.tcpi_delivery_rate};
}

}  // namespace hearth
