// A transport of an agent that reaches none: every call fails with kUnavailable. Tests override
// those that they play.
#pragma once

#include "transport/peer_transport.h"

namespace hearth::testing_rails {

class UnreachableTransport : public PeerTransport {
 public:
  void setPeers(std::vector<PeerIdentity>) override {}
  void adopt(int) override {}
  Task<Status> read(std::string, ContentKey, std::uint64_t, MemoryVector,
                    std::vector<std::uint32_t>&, RequestTimeouts, RequestClass) override {
    co_return unreachable();
  }
  Task<Status> write(std::string, ContentKey, std::uint64_t, std::uint64_t,
                     std::optional<MemoryDescriptor>, MemoryVector, RequestTimeouts,
                     RequestClass) override {
    co_return unreachable();
  }
  Task<Result<std::vector<std::byte>>> readManifest(std::string, Sha256Digest,
                                                    Clock::time_point) override {
    co_return unreachable();
  }
  Task<Result<ControlMessage>> call(std::string, ControlMessage, RequestTimeouts) override {
    co_return unreachable();
  }
  Task<void> close() override { co_return; }
  std::vector<PeerStatistics> statistics() const override { return {}; }

 private:
  static Error unreachable() { return {ErrorCode::kUnavailable, "no agent is reached"}; }
};

}  // namespace hearth::testing_rails
