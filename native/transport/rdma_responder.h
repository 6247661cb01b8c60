// The answering side of an RDMA endpoint (rdma_rail.h): writes what its handler answers into the
// window that the request names, and then sends the checksums. Bytes that the device does not know
// are copied into registered memory first. On the reactor's thread.
#pragma once

#include <memory>
#include <string>

#include "transport/peer_transport.h"
#include "transport/rdma_shard.h"

namespace hearth {

class RdmaResponder : public std::enable_shared_from_this<RdmaResponder> {
 public:
  // For an authenticated node that calls its endpoint `theirs`; connected to it. The references
  // must remain live while the result, or a request of it, is used.
  [[nodiscard]] static Result<std::shared_ptr<RdmaResponder>> create(
      Reactor& reactor, Gate& gate, RdmaShard& shard, PeerHandler& handler, std::string node,
      std::shared_ptr<PeerStatistics> account, const EndpointAddress& theirs);
  RdmaResponder(Reactor& reactor, Gate& gate, RdmaShard& shard, PeerHandler& handler,
                std::string node, std::shared_ptr<PeerStatistics> account);

  [[nodiscard]] const EndpointAddress& address() const { return endpoint_->address(); }
  // Ends it now: what is under way is not answered.
  void fail(Error reason) { endpoint_->fail(std::move(reason)); }

 private:
  static Task<void> serve(std::shared_ptr<RdmaResponder> self, std::uint64_t requestId,
                          ReadRequest request);
  // What a write sends: `answer` has its checksums.
  [[nodiscard]] Task<Result<MemorySlice>> load(const ReadRequest& request, ReadAnswer& answer);
  void onMessage(const Endpoint::Message& message);
  // After `write`, which may be null.
  void send(std::unique_ptr<Transfer> write, std::span<const std::byte> frame);

  Reactor& reactor_;
  Gate& gate_;
  RdmaShard& shard_;
  PeerHandler& handler_;
  const std::string node_;
  const std::shared_ptr<PeerStatistics> account_;
  std::uint32_t serving_ = 0;
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace hearth
