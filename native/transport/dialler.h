// Makes connections to peers: connect, prove the secret, check who answered. On the reactor's
// thread.
#pragma once

#include <memory>
#include <set>

#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/client_connection.h"
#include "transport/peer_transport.h"
#include "transport/socket.h"

namespace hearth {

class Dialler {
 public:
  // The references must remain live while this object is used.
  Dialler(Reactor& reactor, Gate& gate, const TransportOptions& options)
      : reactor_(reactor), gate_(gate), options_(options) {}

  // Returns a running connection to that incarnation of that node, within options.connectTimeout;
  // to any agent of the cluster when `incarnation` is empty. Errors say which address failed;
  // kUnavailable also when another node or incarnation answers there.
  [[nodiscard]] Task<Result<std::shared_ptr<ClientConnection>>> dial(
      std::string node, std::string incarnation, PeerAddress address,
      std::shared_ptr<PeerStatistics> account);

  // Ends all attempts, now and in future.
  void close();

 private:
  class Attempt;
  [[nodiscard]] Task<Status> connectTo(Attempt& attempt, const PeerAddress& address);
  // Has a connection to `peer` come from the next local address.
  [[nodiscard]] Status chooseLocalAddress(int socket, const SocketAddress& peer);

  Reactor& reactor_;
  Gate& gate_;
  const TransportOptions& options_;
  std::set<Attempt*> attempts_;
  std::size_t nextLocal_ = 0;
  bool closed_ = false;
};

}  // namespace hearth
