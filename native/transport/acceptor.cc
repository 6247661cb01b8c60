#include "transport/acceptor.h"

#include <algorithm>
#include <limits>

#include "transport/handshake.h"
#include "transport/limits.h"

namespace hearth {
namespace {

Error tooMany() {
  return {ErrorCode::kUnavailable, "too many connections wait for their handshake"};
}

// A new socket's buffer has room for the frame.
void sendTooMany(int fd) {
  const Error reason = tooMany();
  sendAtOnce(fd, encodeFrame(Refuse{reason.code, reason.message}));
}

// The rest is for agents.
ClientLimits clientConnectionLimits(std::size_t connections) {
  ClientLimits limits = ClientLimits::shared(connections - connections / 4);
  limits.ofPod = std::min<std::uint64_t>(limits.ofPod, kConnectionsPerPod);
  return limits;
}

}  // namespace

Acceptor::Acceptor(Reactor& reactor, Gate& gate, const TransportOptions& options,
                   SocketLimits limits, PeerHandler& handler, AccountOf accountOf)
    : reactor_(reactor),
      gate_(gate),
      options_(options),
      limits_(limits),
      handler_(handler),
      writeOrder_(reactor),
      accountOf_(std::move(accountOf)),
      unknownHosts_(limits.unauthenticated,
                    std::min(limits.unauthenticated, kMaxUnauthenticatedPerHost)),
      agentHosts_(std::numeric_limits<std::size_t>::max(), kMaxUnauthenticatedPerHost),
      clientConnections_(clientConnectionLimits(limits.connections)),
      clientRequests_(ClientLimits::shared(kClientRequestMemory)),
      closing_(reactor) {}

void Acceptor::reject(const std::string& host, const Error& reason) {
  ++rejected_;
  lastRejected_ = host + ": " + reason.message;
}

void Acceptor::adopt(Socket socket) {
  if (closing_.isSet()) return;
  tuneConnection(socket.fd());
  const int fd = socket.fd();
  const std::string host = remoteAddress(fd).host;
  const bool ofAgent = agents_.contains(plainHost(host));
  HandshakeLimiter& limiter = ofAgent ? agentHosts_ : unknownHosts_;
  std::shared_ptr<HandshakeLimiter::Slot> slot =
      limiter.enter(ofAgent ? plainHost(host) : sourceOf(fd), Clock::now(), [fd] {
        sendTooMany(fd);
        shutdown(fd, SHUT_RDWR);
      });
  if (!slot) {
    reject(host, tooMany());
    return sendTooMany(fd);
  }
  gate_.spawn(authenticate(*this, std::move(socket), host, std::move(slot)));
}

Task<void> Acceptor::authenticate(Acceptor& acceptor, Socket socket, std::string host,
                                  std::shared_ptr<HandshakeLimiter::Slot> slot) {
  const int fd = socket.fd();
  Reactor& reactor = acceptor.reactor_;
  const TransportOptions& options = acceptor.options_;
  acceptor.handshaking_.insert(fd);
  bool late = false;
  Reactor::Timer timer(reactor);
  timer.start(Clock::now() + options.connectTimeout, [&late, fd] {
    late = true;
    shutdown(fd, SHUT_RDWR);
  });
  FrameReader reader(reactor, fd);
  LocalIdentity self{options.cluster, options.node, options.incarnation, options.secret,
                     options.offer};
  self.revoked = acceptor.revoked_;
  Result<Agreed> agreed = co_await acceptHandshake(reactor, fd, reader, self);
  timer.cancel();
  acceptor.handshaking_.erase(fd);
  if (acceptor.closing_.isSet()) {
    slot.reset();
    co_return;
  }
  if (slot->revoked()) agreed = tooMany();
  if (late) agreed = Error{ErrorCode::kUnavailable, "the handshake did not end in time"};
  // Again: the list may have come during the handshake.
  if (agreed.ok() && agreed->client) {
    const Status taken = checkClient(*agreed->client, options.node, false, acceptor.revoked_.get());
    if (!taken.ok()) agreed = taken.error();
  }
  if (agreed.ok()) {
    slot.reset();
    acceptor.serve(std::move(socket), std::move(reader), std::move(*agreed));
    co_return;
  }
  acceptor.reject(host, agreed.error());
  // Both before the descriptor is closed, and so another connection's.
  if (agreed.code() == ErrorCode::kUnauthenticated) slot->fail(Clock::now());
  slot.reset();
}

std::string Acceptor::whoHasTooMany(Agreed& with) {
  if (with.client) {
    const ClientIdentity& client = with.client->client;
    with.share = clientConnections_.take(client, 1);
    if (!with.share) return holderOf(clientConnections_.bound(client, 1));
  }
  const std::size_t ofNode = connectionsOf(with.node);
  if (!with.client && ofNode >= kConnectionsPerNode) return with.node + " has";
  return connections_.size() >= limits_.connections ? "there are" : "";
}

void Acceptor::serve(Socket socket, FrameReader reader, Agreed with) {
  if (const std::string holder = whoHasTooMany(with); !holder.empty()) {
    const Error reason{ErrorCode::kUnavailable, holder + " too many connections to this agent"};
    sendAtOnce(socket.fd(), encodeFrame(Goodbye{reason.code, reason.message}));
    return reject(with.node, reason);
  }
  const bool ofClient = with.client != nullptr;
  std::shared_ptr<PeerStatistics> account = accountOf_(ofClient ? "clients" : with.node);
  auto connection = std::make_shared<ServerConnection>(
      reactor_, gate_, Channel{std::move(socket), std::move(reader), std::move(account)},
      options_.idleProbe, std::move(with),
      Credit{options_.creditBytes, kRequestsPerConnection,
             WriteCredit{options_.writeCreditBytes, kWritesPerConnection}},
      handler_, writeOrder_);
  connections_.push_back(connection);
  connection->useRdma(rdma_);
  if (ofClient) connection->limitRequests(clientRequests_);
  connection->start();
  connection->giveCredit();
}

std::size_t Acceptor::connectionsOf(const std::string& node) {
  std::erase_if(connections_, [](const auto& entry) { return entry.expired(); });
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [&](const auto& entry) { return entry.lock()->node() == node; }));
}

void Acceptor::dismiss(const std::function<bool(const ServerConnection&)>& unwanted,
                       const Error& reason) {
  for (const std::weak_ptr<ServerConnection>& entry : connections_) {
    const std::shared_ptr<ServerConnection> connection = entry.lock();
    if (connection && unwanted(*connection)) connection->part(reason);
  }
}

void Acceptor::setRevoked(std::shared_ptr<const RevokedTokens> tokens) {
  revoked_ = std::move(tokens);
  if (revoked_ == nullptr) return;
  dismiss(
      [this](const ServerConnection& connection) {
        return connection.client() != nullptr && revoked_->covers(*connection.client());
      },
      {ErrorCode::kUnauthenticated, "the client's token was revoked"});
}

void Acceptor::close(const Error& reason) {
  closing_.set();
  for (const int fd : handshaking_) shutdown(fd, SHUT_RDWR);
  dismiss([](const ServerConnection&) { return true; }, reason);
}

}  // namespace hearth
