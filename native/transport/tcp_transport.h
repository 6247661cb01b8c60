// PeerTransport over TCP: asks peers (peer.h), answers connections (acceptor.h), and tries requests
// again. Reads and writes go over the rails of a peer (rail_mover.h). On the reactor's thread,
// except adopt().
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "transport/acceptor.h"
#include "transport/callers.h"
#include "transport/dialler.h"
#include "transport/peer.h"
#include "transport/peer_transport.h"

namespace hearth {

class TcpTransport final : public PeerTransport {
 public:
  // `reactor` and `handler` must remain live while this object is used, until close() has ended.
  TcpTransport(Reactor& reactor, TransportOptions options, PeerHandler& handler);

  void setPeers(std::vector<PeerIdentity> peers) override;
  void setRevoked(std::shared_ptr<const RevokedTokens> tokens) override;
  void adopt(int socket) override;
  [[nodiscard]] bool reaches(const std::string& node) override;
  [[nodiscard]] bool lives(const std::string& node, Clock::duration silence) override;
  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override;
  Task<Status> write(std::string node, ContentKey key, std::uint64_t offset,
                     std::uint64_t generation, std::optional<MemoryDescriptor> target,
                     MemoryVector from, RequestTimeouts timeouts,
                     RequestClass requestClass) override;
  Task<Result<std::vector<std::byte>>> readManifest(std::string node, Sha256Digest digest,
                                                    Clock::time_point deadline) override;
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override;
  Task<void> close() override;
  std::vector<PeerStatistics> statistics() const override;
  Status rdmaStatus(const RdmaDevice& port) const override;

 private:
  // Reads or writes a range over the rails of the peer.
  [[nodiscard]] Task<Status> move(std::string node, RailTransfer transfer,
                                  std::vector<std::uint32_t>& blockChecksums);
  [[nodiscard]] Result<std::shared_ptr<Peer>> peerOf(const std::string& node) const;
  [[nodiscard]] std::shared_ptr<PeerStatistics> accountOf(const std::string& node);
  void startRdma(const std::shared_ptr<RdmaDevice>& device);
  template <class Attempt>
  [[nodiscard]] static Task<Status> tryTwice(std::shared_ptr<Peer> peer, Lane lane,
                                             Attempt& attempt, RequestTimeouts timeouts);

  Reactor& reactor_;
  const TransportOptions options_;
  const SocketLimits limits_;
  Gate gate_;
  // Declared before everything that has endpoints of them. Empty: RDMA is off, or no port can be
  // used.
  std::shared_ptr<HeldSlots> heldSlots_;  // of all ports
  std::vector<std::unique_ptr<RdmaShard>> rdmaShards_;
  std::vector<RdmaShard*> rdma_;
  std::map<const RdmaDevice*, Error> rdmaRefused_;  // ports that are not in use
  Dialler dialler_;
  Acceptor acceptor_;
  std::map<std::string, std::shared_ptr<PeerStatistics>> accounts_;
  std::map<std::string, std::shared_ptr<Peer>> peers_;
  bool closed_ = false;
  Callers callers_;  // coroutines of read, readManifest and call
  // Functions that adopt() posts from other threads may run after the transport has gone.
  std::shared_ptr<TcpTransport*> self_;
  std::atomic<std::size_t> arriving_{0};  // sockets posted by adopt()
};

}  // namespace hearth
