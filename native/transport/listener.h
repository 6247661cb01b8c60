// The Listener of peer_transport.h over TCP.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "reactor/synchronization.h"
#include "transport/handshake_limiter.h"
#include "transport/peer_transport.h"
#include "transport/socket.h"

namespace hearth {

class TcpListener final : public Listener {
 public:
  using Adopt = std::function<void(std::uint32_t, int)>;
  // `reactor` must remain live while this object is used.
  TcpListener(Reactor& reactor, Socket socket, Adopt adopt);

  void setPeers(const std::vector<PeerIdentity>& peers) override { agents_ = hostsOf(peers); }
  PeerAddress address() const override { return address_; }
  Task<void> close() override;

 private:
  static Task<void> acceptAll(TcpListener& listener);
  void admit(Socket socket);
  static Task<void> readPreface(TcpListener& listener, Socket socket,
                                std::shared_ptr<HandshakeLimiter::Slot> slot);

  Reactor& reactor_;
  Socket socket_;
  Adopt adopt_;
  PeerAddress address_;
  Gate gate_;
  std::set<std::string> agents_;  // hosts
  HandshakeLimiter unknownHosts_, agentHosts_;
  std::set<int> halfOpen_;  // descriptors whose preface has not come
  Event closing_;
};

}  // namespace hearth
