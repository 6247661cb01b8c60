#include "transport/listener.h"

#include <netinet/in.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <limits>

#include "transport/handshake.h"
#include "transport/limits.h"

namespace hearth {
namespace {

constexpr int kBacklog = 1024;
// Pause after accept() failed for want of descriptors or memory.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

Error listenError(int error, const PeerAddress& address) {
  if (error == EADDRINUSE) {
    return {ErrorCode::kInUse, "port " + std::to_string(address.port) + " of " + address.host +
                                   " is in use; stop the program that listens there (ss -ltnp "
                                   "shows it) or choose another port"};
  }
  if (error == EADDRNOTAVAIL) {
    return {ErrorCode::kInvalidArgument,
            address.host +
                " is not an address of this machine; give the address of one of its "
                "network interfaces (ip address shows them)"};
  }
  return errnoError(error, "listen on " + textOf(address));
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(Reactor& reactor, PeerAddress address,
                                                   std::function<void(std::uint32_t, int)> adopt) {
  const Result<SocketAddress> resolved = socketAddress(address);
  if (!resolved.ok()) return resolved.error();
  Result<Socket> opened = openSocket(*resolved);
  if (!opened.ok()) return opened.error();
  const int fd = opened->fd();
  const int one = 1;
  // Ports of connections that have just ended may be listened on again.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, resolved->get(), resolved->size) != 0 || listen(fd, kBacklog) != 0) {
    return listenError(errno, address);
  }
  return std::unique_ptr<Listener>(
      std::make_unique<TcpListener>(reactor, std::move(*opened), std::move(adopt)));
}

TcpListener::TcpListener(Reactor& reactor, Socket socket, Adopt adopt)
    : reactor_(reactor),
      socket_(std::move(socket)),
      adopt_(std::move(adopt)),
      address_(localAddress(socket_.fd())),
      gate_(reactor),
      unknownHosts_(kHalfOpen, kHalfOpenPerHost),
      agentHosts_(std::numeric_limits<std::size_t>::max(), kHalfOpenPerHost),
      closing_(reactor) {
  gate_.spawn(acceptAll(*this));
}

Task<void> TcpListener::acceptAll(TcpListener& listener) {
  while (!listener.closing_.isSet()) {
    const std::int32_t result = co_await listener.reactor_.accept(listener.socket_.fd());
    if (listener.closing_.isSet()) {
      Socket late(result);
      break;
    }
    if (result >= 0) {
      listener.admit(Socket(result));
    } else if (result == -EAGAIN) {
      co_await listener.reactor_.poll(listener.socket_.fd(), POLLIN);
    } else if (result != -ECONNABORTED && result != -EINTR) {
      co_await listener.closing_.waitUntil(Clock::now() + kAcceptPause);
    }
  }
}

void TcpListener::admit(Socket socket) {
  const int fd = socket.fd();
  const std::string host = plainHost(remoteAddress(fd).host);
  const bool ofAgent = agents_.contains(host);
  HandshakeLimiter& limiter = ofAgent ? agentHosts_ : unknownHosts_;
  std::shared_ptr<HandshakeLimiter::Slot> slot =
      limiter.enter(ofAgent ? host : sourceOf(fd), Clock::now(), [fd] { shutdown(fd, SHUT_RDWR); });
  if (slot) gate_.spawn(readPreface(*this, std::move(socket), std::move(slot)));
}

Task<void> TcpListener::readPreface(TcpListener& listener, Socket socket,
                                    std::shared_ptr<HandshakeLimiter::Slot> slot) {
  const int fd = socket.fd();
  listener.halfOpen_.insert(fd);
  Reactor::Timer timer(listener.reactor_);
  timer.start(Clock::now() + kPrefaceTimeout, [fd] { shutdown(fd, SHUT_RDWR); });
  // Reads exactly the preface: later bytes are for the shard that adopts the socket.
  std::array<std::byte, kPrefaceFrameBytes> bytes;
  const std::int32_t result = co_await listener.reactor_.receive(fd, bytes, MSG_WAITALL);
  bool adopted = false;
  if (result == static_cast<std::int32_t>(bytes.size())) {
    const Result<FrameHeader> header = decodeHeader(bytes);
    if (!header.ok() || header->type != FrameType::kPreface) {
      const Error error = header.ok() ? Error{ErrorCode::kProtocolError,
                                              "a connection must begin with a Preface frame"}
                                      : header.error();
      co_await refuse(listener.reactor_, fd, error);
    } else {
      const auto body = std::span<const std::byte>(bytes).subspan(kFrameHeaderBytes);
      const Result<Preface> preface = decodeBody<Preface>(body);
      adopted = preface.ok() && checkBody(*header, body).ok() && !listener.closing_.isSet();
      if (adopted) {
        timer.cancel();
        slot.reset();
        listener.adopt_(preface->shard, socket.release());
      }
    }
  }
  listener.halfOpen_.erase(fd);
  slot.reset();  // before the descriptor is closed, and so another socket's
}

Task<void> TcpListener::close() {
  closing_.set();
  socket_.shutDown();  // ends the accept
  for (const int fd : halfOpen_) shutdown(fd, SHUT_RDWR);
  co_await gate_.close();
  socket_.reset();
}

}  // namespace hearth
