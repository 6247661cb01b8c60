#include "transport/dialler.h"

#include <netinet/in.h>

#include <cerrno>

#include "transport/handshake.h"

namespace hearth {

// One dial under way, with its deadline. Ends early by cancelling the connect or by shutting the
// socket down.
class Dialler::Attempt {
 public:
  Attempt(Dialler& dialler, Clock::time_point deadline)
      : dialler_(dialler), timer_(dialler.reactor_) {
    dialler_.attempts_.insert(this);
    timer_.start(deadline, [this] {
      late = true;
      end();
    });
  }
  ~Attempt() { dialler_.attempts_.erase(this); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void end() {
    if (connecting != nullptr) {
      dialler_.reactor_.cancel(*connecting);
    } else {
      socket.shutDown();
    }
  }

  Socket socket;
  Operation* connecting = nullptr;
  bool late = false;

 private:
  Dialler& dialler_;
  Reactor::Timer timer_;
};

Status Dialler::chooseLocalAddress(int socket, const SocketAddress& peer) {
  const std::size_t count = options_.localAddresses.size();
  for (std::size_t tried = 0; tried < count; ++tried) {
    const std::string& host = options_.localAddresses[nextLocal_++ % count];
    const Result<SocketAddress> local = socketAddress({.host = host, .port = 0});
    if (!local.ok()) return local.error();
    if (local->storage.ss_family != peer.storage.ss_family) continue;
    // The port is chosen at the connect: as many connections as there are ports to each peer.
    const int later = 1;
    setsockopt(socket, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof later);
    if (bind(socket, local->get(), local->size) != 0)
      return errnoError(errno, "use the address " + host + " of this host");
    return {};
  }
  return {};
}

Task<Status> Dialler::connectTo(Attempt& attempt, const PeerAddress& address) {
  const Result<SocketAddress> resolved = socketAddress(address);
  if (!resolved.ok()) co_return resolved.error();
  Result<Socket> opened = openSocket(*resolved);
  if (!opened.ok()) co_return opened.error();
  attempt.socket = std::move(*opened);
  const Status local = chooseLocalAddress(attempt.socket.fd(), *resolved);
  if (!local.ok()) co_return local;
  tuneConnection(attempt.socket.fd());
  auto connecting = reactor_.connect(attempt.socket.fd(), resolved->get(), resolved->size);
  attempt.connecting = &connecting.operation;
  const std::int32_t result = co_await connecting;
  attempt.connecting = nullptr;
  if (result < 0) {
    Error error = errnoError(-result, "connect");
    error.code = ErrorCode::kUnavailable;
    co_return error;
  }
  co_return Status();
}

Task<Result<std::shared_ptr<ClientConnection>>> Dialler::dial(
    std::string node, std::string incarnation, PeerAddress address,
    std::shared_ptr<PeerStatistics> account) {
  const std::string where = node + " at " + textOf(address);
  if (closed_) co_return Error{ErrorCode::kCancelled, where + ": this agent is shutting down"};
  Attempt attempt(*this, Clock::now() + options_.connectTimeout);
  const auto explain = [&](const Error& error) {
    if (closed_) return Error{ErrorCode::kCancelled, where + ": this agent is shutting down"};
    if (!attempt.late) return error.within(where);
    return Error{ErrorCode::kUnavailable,
                 where +
                     ": no connection in time; check that the agent runs there and that no "
                     "firewall drops its port"};
  };
  const Status connected = co_await connectTo(attempt, address);
  if (!connected.ok()) co_return explain(connected.error());

  FrameReader reader(reactor_, attempt.socket.fd());
  // Reads the token anew for each connection, as tokens are renewed.
  const Result<CapabilityToken> token =
      options_.token ? options_.token() : Result<CapabilityToken>(CapabilityToken{});
  if (!token.ok()) co_return explain(token.error());
  const LocalIdentity self{options_.cluster, options_.node,  options_.incarnation,
                           options_.secret,  options_.offer, options_.token ? &*token : nullptr};
  const Preface preface{options_.shard, options_.shards};
  Task<Result<Agreed>> shaking =
      dialHandshake(reactor_, attempt.socket.fd(), reader, self, preface);
  const Result<Agreed> agreed = co_await shaking;
  if (!agreed.ok()) co_return explain(agreed.error());
  const bool meant =
      incarnation.empty() || (agreed->node == node && agreed->incarnation == incarnation);
  if (!meant) {
    co_return Error{ErrorCode::kUnavailable,
                    where + ": " + agreed->node + " (" + agreed->incarnation +
                        ") answers there; the view of the cluster is out of date"};
  }
  if (closed_ || attempt.late) co_return explain({ErrorCode::kUnavailable, "connect"});
  account->wireVersion = agreed->version;
  account->featuresOff = options_.offer.features & ~agreed->features;
  auto connection = std::make_shared<ClientConnection>(
      reactor_, gate_, Channel{std::move(attempt.socket), std::move(reader), std::move(account)},
      options_.idleProbe, std::move(address), agreed->features);
  connection->start();
  co_return connection;
}

void Dialler::close() {
  closed_ = true;
  for (Attempt* const attempt : attempts_) attempt->end();
}

}  // namespace hearth
