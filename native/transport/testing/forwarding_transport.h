// A transport that hands every call to another one; tests override those that they watch.
#pragma once

#include <memory>
#include <utility>

#include "transport/peer_transport.h"

namespace hearth::testing_rails {

class ForwardingTransport : public PeerTransport {
 public:
  explicit ForwardingTransport(std::unique_ptr<PeerTransport> inner) : inner_(std::move(inner)) {}

  void setPeers(std::vector<PeerIdentity> peers) override { inner_->setPeers(std::move(peers)); }
  void setRevoked(std::shared_ptr<const RevokedTokens> tokens) override {
    inner_->setRevoked(std::move(tokens));
  }
  void adopt(int socket) override { inner_->adopt(socket); }
  bool reaches(const std::string& node) override { return inner_->reaches(node); }
  bool lives(const std::string& node, Clock::duration silence) override {
    return inner_->lives(node, silence);
  }
  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override {
    return inner_->read(std::move(node), key, offset, std::move(into), blockChecksums, timeouts,
                        requestClass);
  }
  Task<Status> write(std::string node, ContentKey key, std::uint64_t offset,
                     std::uint64_t generation, std::optional<MemoryDescriptor> target,
                     MemoryVector from, RequestTimeouts timeouts,
                     RequestClass requestClass) override {
    return inner_->write(std::move(node), key, offset, generation, std::move(target),
                         std::move(from), timeouts, requestClass);
  }
  Task<Result<std::vector<std::byte>>> readManifest(std::string node, Sha256Digest digest,
                                                    Clock::time_point deadline) override {
    return inner_->readManifest(std::move(node), digest, deadline);
  }
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override {
    return inner_->call(std::move(node), std::move(request), timeouts);
  }
  Task<void> close() override { return inner_->close(); }
  std::vector<PeerStatistics> statistics() const override { return inner_->statistics(); }
  Status rdmaStatus(const RdmaDevice& port) const override { return inner_->rdmaStatus(port); }

 private:
  const std::unique_ptr<PeerTransport> inner_;
};

}  // namespace hearth::testing_rails
