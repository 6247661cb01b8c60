// Agents that get no answer from healthy agents. For tests.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "directory/directory_message.h"
#include "engine/engine.h"
#include "reactor/synchronization.h"
#include "transport/testing/forwarding_transport.h"

namespace hearth::testing_cluster {

// Fails reads from one agent, as if it was out of reach, once so many are under way.
class FailingTransport final : public testing_rails::ForwardingTransport {
 public:
  struct Reads {
    std::string from;
    std::size_t together = 0;
    // Not zero: they fail with kDeadlineExceeded after this time instead.
    Clock::duration late{};
    std::atomic<std::size_t> failed{0}, lookUps{0};  // to the directory
  };
  FailingTransport(Reactor& reactor, std::unique_ptr<PeerTransport> inner, Reads& reads)
      : ForwardingTransport(std::move(inner)),
        reactor_(reactor),
        reads_(reads),
        together_(reactor) {}
  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override {
    if (node != reads_.from) {
      co_return co_await ForwardingTransport::read(std::move(node), key, offset, std::move(into),
                                                   blockChecksums, timeouts, requestClass);
    }
    if (++reads_.failed == reads_.together) together_.set();
    co_await together_.wait();
    if (reads_.late == Clock::duration::zero())
      co_return Error{ErrorCode::kUnavailable, node + " is out of reach"};
    co_await reactor_.sleep(reads_.late);
    co_return Error{ErrorCode::kDeadlineExceeded, node + " did not answer in time"};
  }
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override {
    if (request.type == static_cast<std::uint16_t>(DirectoryMessage::kLocate)) ++reads_.lookUps;
    return ForwardingTransport::call(std::move(node), std::move(request), timeouts);
  }

 private:
  Reactor& reactor_;
  Reads& reads_;
  Event together_;
};

inline std::function<void(EngineOptions&)> failingBy(FailingTransport::Reads& reads) {
  return [&reads](EngineOptions& options) {
    options.shards = 1;
    options.transport = [&reads](Reactor& reactor, TransportOptions transport,
                                 PeerHandler& handler) -> std::unique_ptr<PeerTransport> {
      return std::make_unique<FailingTransport>(
          reactor, PeerTransport::create(reactor, std::move(transport), handler), reads);
    };
  };
}

}  // namespace hearth::testing_cluster
