// The answering side of an RDMA endpoint (rdma_rail.h): writes the handler's answer into the window
// that the request names, and then sends the checksums; or sends both in a message, where the
// request names no window. Bytes that the device does not know are copied into registered memory
// first. On the reactor's thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "transport/peer_transport.h"
#include "transport/rdma_channel.h"

namespace hearth {

class RdmaResponder : public std::enable_shared_from_this<RdmaResponder> {
 public:
  // The parts that a responder uses. The references must remain live while the result, or a request
  // of it, is used.
  struct With {
    Reactor& reactor;
    Gate& gate;
    RdmaShard& shard;
    std::uint32_t port;  // its number among our ports, of which account->rdmaRails has an entry
    PeerHandler& handler;
    std::string node;  // authenticated
    std::shared_ptr<PeerStatistics> account;
  };
  // Creates a responder connected to `theirs`, the endpoint of the node.
  [[nodiscard]] static Result<std::shared_ptr<RdmaResponder>> create(With with,
                                                                     const EndpointAddress& theirs);
  explicit RdmaResponder(With with);

  [[nodiscard]] const EndpointAddress& address() const { return channel_->address(); }
  // Ends the responder now; requests under way get no answer.
  void fail(Error reason) { channel_->fail(std::move(reason)); }
  // Awaitable: ends when the responder has failed, or the other side has closed it.
  [[nodiscard]] auto awaitEnd() { return ended_.wait(); }

 private:
  static Task<void> serve(std::shared_ptr<RdmaResponder> self, std::uint64_t requestId,
                          ReadRequest request, Interest interest);
  // Loads the bytes of the request; puts their checksums into `answer`.
  [[nodiscard]] Task<Result<MemorySlice>> load(const ReadRequest& request, const Interest& interest,
                                               ReadAnswer& answer);
  [[nodiscard]] Status onFrame(const RdmaChannel::Frame& frame);
  [[nodiscard]] Status onRequest(std::uint64_t requestId, ReadRequest request);
  void answer(std::uint64_t requestId, const ReadRequest& request, ReadAnswer answer,
              MemorySlice bytes);

  const With with_;
  Event ended_;
  std::map<std::uint64_t, Interest> serving_;  // by request id
  std::unique_ptr<RdmaChannel> channel_;
};

}  // namespace hearth
