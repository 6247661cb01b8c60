// The answering half of a transport: turns sockets that a listener accepted into server connections
// once the other side has proved the secret. On the reactor's thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/client_shares.h"
#include "transport/handshake_limiter.h"
#include "transport/peer_transport.h"
#include "transport/server_connection.h"
#include "transport/socket_limits.h"

namespace hearth {

class Acceptor {
 public:
  using AccountOf = std::function<std::shared_ptr<PeerStatistics>(const std::string& node)>;

  // The references must outlive the acceptor; the gate must close before the acceptor goes.
  Acceptor(Reactor& reactor, Gate& gate, const TransportOptions& options, SocketLimits limits,
           PeerHandler& handler, AccountOf accountOf);

  // `hosts`: the agents of the cluster, in the spelling of plainHost(). Connections from there have
  // places of their own until they have proved who they are.
  void setAgents(std::set<std::string> hosts) { agents_ = std::move(hosts); }
  void setRevoked(std::shared_ptr<const RevokedTokens> tokens);
  // Later connections give endpoints of `shards`, one for each port. The shards must outlive them.
  void useRdma(std::span<RdmaShard* const> shards) { rdma_ = shards; }
  // Takes over a socket whose preface has been read.
  void adopt(Socket socket);
  // Ends the connections for which `unwanted` holds.
  void dismiss(const std::function<bool(const ServerConnection&)>& unwanted, const Error& reason);
  // Ends everything, now and in future.
  void close(const Error& reason);

  // Connections of the node, including ended ones whose requests are still being executed.
  [[nodiscard]] std::size_t connectionsOf(const std::string& node);
  // Connections that never proved who they are, and the reason against the last of them.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }
  [[nodiscard]] const std::string& lastRejected() const { return lastRejected_; }

 private:
  static Task<void> authenticate(Acceptor& acceptor, Socket socket, std::string host,
                                 std::shared_ptr<HandshakeLimiter::Slot> slot);
  void serve(Socket socket, FrameReader reader, Agreed with);
  // Whose connections are as many as may be: "a has". Empty: nobody's, and a client has its share.
  [[nodiscard]] std::string whoHasTooMany(Agreed& with);
  void reject(const std::string& host, const Error& reason);

  Reactor& reactor_;
  Gate& gate_;
  const TransportOptions& options_;
  const SocketLimits limits_;
  PeerHandler& handler_;
  std::span<RdmaShard* const> rdma_;
  WriteOrder writeOrder_;
  AccountOf accountOf_;
  std::set<std::string> agents_;  // hosts
  std::shared_ptr<const RevokedTokens> revoked_;
  HandshakeLimiter unknownHosts_, agentHosts_;
  ClientShares clientConnections_, clientRequests_;
  std::set<int> handshaking_;  // descriptors in a handshake
  std::vector<std::weak_ptr<ServerConnection>> connections_;
  Event closing_;
  std::uint64_t rejected_ = 0;
  std::string lastRejected_;
};

}  // namespace hearth
