#include "rdma_bench/control.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace hearth::rdma_bench {
namespace {

constexpr std::size_t kMostLineBytes = 1024;

struct Addresses {
  Addresses() = default;
  ~Addresses() {
    if (list != nullptr) ::freeaddrinfo(list);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  addrinfo* list = nullptr;
};

Status resolve(const std::string& address, bool listens, Addresses& found) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return Error{ErrorCode::kInvalidArgument, address + " is not HOST:PORT"};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listens ? AI_PASSIVE : 0;
  const std::string port = address.substr(colon + 1);
  const int error =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found.list);
  if (error != 0) return Error{ErrorCode::kInvalidArgument, address + ": " + ::gai_strerror(error)};
  return {};
}

OwnedFd socketFor(const addrinfo& address) {
  return OwnedFd(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0));
}

std::string nameOf(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const any = reinterpret_cast<sockaddr*>(&storage);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(socket, any, &size) != 0 ||
      ::getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  const bool isV6 = storage.ss_family == AF_INET6;
  return (isV6 ? "[" : "") + std::string(host.data()) + (isV6 ? "]:" : ":") + port.data();
}

std::unique_ptr<Control> controlOn(OwnedFd socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return std::make_unique<Control>(std::move(socket));
}

}  // namespace

Result<std::unique_ptr<Control>> Control::connect(const std::string& address) {
  Addresses found;
  if (const Status resolved = resolve(address, false, found); !resolved.ok())
    return resolved.error();
  int error = ENOENT;
  for (const addrinfo* each = found.list; each != nullptr; each = each->ai_next) {
    OwnedFd socket = socketFor(*each);
    if (socket && ::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0)
      return controlOn(std::move(socket));
    error = errno;
  }
  return errnoError(error, "connecting to " + address);
}

Status Control::send(std::string line) {
  line += '\n';
  std::size_t at = 0;
  while (at < line.size()) {
    const ssize_t sent = ::send(socket_.get(), line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return errnoError(errno, "writing to the other side");
    at += static_cast<std::size_t>(sent);
  }
  return {};
}

Result<std::optional<std::string>> Control::received() {
  for (;;) {
    if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
      std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    if (text_.size() > kMostLineBytes)
      return Error{ErrorCode::kProtocolError, "the other side is no hearth-rdma-bench"};
    std::array<char, kMostLineBytes> part{};
    const ssize_t got = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) {
      text_.append(part.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<std::string>();
    if (got < 0) return errnoError(errno, "reading from the other side");
    return Error{ErrorCode::kUnavailable, "the other side has closed the connection"};
  }
}

Result<std::string> Control::receive() {
  for (;;) {
    Result<std::optional<std::string>> line = received();
    if (!line.ok()) return line.error();
    if (*line) return **line;
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, -1) < 0 && errno != EINTR)
      return errnoError(errno, "waiting for the other side");
  }
}

Result<std::unique_ptr<Listener>> Listener::bind(const std::string& address) {
  Addresses found;
  if (const Status resolved = resolve(address, true, found); !resolved.ok())
    return resolved.error();
  OwnedFd socket = socketFor(*found.list);
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), found.list->ai_addr, found.list->ai_addrlen) != 0 ||
      ::listen(socket.get(), 1) != 0)
    return errnoError(errno, "listening on " + address);
  std::unique_ptr<Listener> made(new Listener(std::move(socket)));
  made->address_ = nameOf(made->socket_.get());
  return made;
}

Result<std::unique_ptr<Control>> Listener::accept() {
  for (;;) {
    OwnedFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) return controlOn(std::move(socket));
    if (errno != EINTR && errno != ECONNABORTED) return errnoError(errno, "accepting a connection");
  }
}

}  // namespace hearth::rdma_bench
