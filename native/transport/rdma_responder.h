// The answering side of an RDMA endpoint (rdma_rail.h): writes the handler's answer into the window
// that the request names, and then sends the checksums; or sends both in a message, where the
// request names no window.
//
// The device reads an answer where it lies in the arena, and the answer holds its slot until then.
// Bytes that the device does not know, and those of a peer that holds as many slots as it may, are
// copied into a staging buffer first. Slots and buffers come back when the device has finished the
// answer, or when the endpoint ends, which is at the latest RdmaTimes::hold after the device has
// finished the answer before.
//
// On the reactor's thread.
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
  // Creates a responder connected to `theirs`, the endpoint of the node. kUnavailable: the node has
  // as many endpoints as it may.
  [[nodiscard]] static Result<std::shared_ptr<RdmaResponder>> create(With with,
                                                                     const EndpointAddress& theirs);
  explicit RdmaResponder(With with);

  [[nodiscard]] const EndpointAddress& address() const { return channel_->address(); }
  // Ends the responder now; requests under way get no answer.
  void fail(Error reason) { channel_->fail(std::move(reason)); }
  // Awaitable: ends when the responder has failed, or the other side has closed it.
  [[nodiscard]] auto awaitEnd() { return ended_.wait(); }

 private:
  // Memory that the device reads for an answer.
  struct Readable {
    MemorySlice bytes;
    bool isCopy = false;
  };
  // The answers whose memory the device may still read. Outlives the responder with the last one.
  struct UnderWay {
    std::size_t answers = 0;
    Clock::time_point changed;  // when the device finished one, or was given the only one
  };
  static Task<void> serve(std::shared_ptr<RdmaResponder> self, std::uint64_t requestId,
                          ReadRequest request, Interest interest);
  // Loads the bytes of the request; puts their checksums into `answer`.
  [[nodiscard]] Task<Result<Readable>> load(const ReadRequest& request, const Interest& interest,
                                            ReadAnswer& answer);
  // The bytes of the handler's answer; brings lent ones that were taken back.
  [[nodiscard]] Task<Result<LentPayload::Piece>> bytesOf(const BytesAnswer& read);
  // Ends the endpoint when the device finishes no answer for RdmaTimes::hold.
  static Task<void> watch(std::shared_ptr<RdmaResponder> self);
  // Counts an answer as under way until the owner of `bytes` goes.
  void count(MemorySlice& bytes);
  [[nodiscard]] Status onFrame(const RdmaChannel::Frame& frame);
  [[nodiscard]] Status onRequest(std::uint64_t requestId, ReadRequest request);
  void answer(std::uint64_t requestId, const ReadRequest& request, ReadAnswer answer,
              Readable from);

  const With with_;
  std::shared_ptr<const void> place_;  // among the node's endpoints
  Event ended_;
  std::map<std::uint64_t, Interest> serving_;  // by request id
  const std::shared_ptr<UnderWay> underWay_ = std::make_shared<UnderWay>();
  bool isWatched_ = false;
  std::unique_ptr<RdmaChannel> channel_;
};

}  // namespace hearth
