// The answering side of a connection: starts a handler for each request and sends what it answers,
// from the handler's memory. What is written (server_writes.cc) is received into the handler's
// memory, and compared, before the handler hears of it. Holds the other side to its credit. On the
// reactor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/handshake.h"
#include "transport/rdma_responder.h"
#include "transport/write_order.h"

namespace hearth {

class ServerConnection final : public Connection {
 public:
  // `with` has proved the secret. `limit`: see Credit in wire/frame.h. The references must remain
  // live while this object, or a request of it that is executed, is used.
  ServerConnection(Reactor& reactor, Gate& gate, Channel channel, Clock::duration probeInterval,
                   Agreed with, Credit limit, PeerHandler& handler, WriteOrder& order);

  // Sends the other side its credit. After start().
  void giveCredit();
  // Before start(): endpoints that the other side asks for are of these, one for each port.
  void useRdma(std::span<RdmaShard* const> shards) { rdma_ = shards; }
  [[nodiscard]] const std::string& node() const { return with_.node; }
  [[nodiscard]] const std::string& incarnation() const { return with_.incarnation; }

 private:
  struct Serving {
    FrameType answer;
    std::uint64_t cost = 0;
    RequestClass requestClass = RequestClass::kDemand;
    Interest interest{};
    bool cancelled = false;
    bool ready = false;  // for what is written
  };
  // What is out of one kind of credit.
  struct Out {
    std::uint64_t bytes = 0, requests = 0;
  };
  // A write that is received; in the frame of its receiveWrite().
  struct Incoming {
    Event ended;  // it is over, and its memory is not received into any more
    const MemoryVector* memory;
    std::uint32_t received = 0;
    std::vector<std::uint32_t> checksums = {};
    bool receiving = false, over = false;
    Status status = {};  // once it is over: whether all has come
  };

  Result<bool> onFrame(const Frame& frame) override;
  Task<Status> onPayload() override;
  void onEnd() override;
  void onReaderEnd() override;
  void onSending(const SendQueue::Item& item) override;

  // Of a client: whether it may send such a frame, and its capability still holds.
  [[nodiscard]] Status allow(FrameType type) const;
  [[nodiscard]] Status admit(std::uint64_t requestId, Serving serving);
  void cancel(std::uint64_t requestId);
  using Self = std::shared_ptr<ServerConnection>;
  [[nodiscard]] Self self();
  // Takes the request in and starts serve().
  template <class Request>
  [[nodiscard]] Result<bool> onRequest(const Frame& frame);
  static Task<void> serve(Self self, std::uint64_t requestId, ReadRequest request,
                          Interest interest);
  static Task<void> serve(Self self, std::uint64_t requestId, ManifestRequest request,
                          Interest interest);
  static Task<void> serve(Self self, std::uint64_t requestId, ControlRequest request,
                          Interest interest);
  // In place of the endpoint that the asker's port may have: the answer has the new one's address.
  [[nodiscard]] Result<ControlMessage> connectRdma(const ControlMessage& request);
  // Frees the endpoint when it has ended.
  static Task<void> keep(Self self, std::uint32_t port, std::shared_ptr<RdmaResponder> responder);
  // Of writes: server_writes.cc.
  static Task<void> serve(Self self, std::uint64_t requestId, WriteRequest request,
                          Interest interest);
  [[nodiscard]] Result<bool> onWriteData(const Frame& frame);
  // How it ended. Afterwards its memory is not written into.
  [[nodiscard]] Task<Status> receiveWrite(std::uint64_t requestId, WriteRequest request,
                                          Interest interest);
  // Waits until all has come, or it is over otherwise: at `until` at the latest, and soon after.
  [[nodiscard]] Task<void> awaitData(Incoming& write, Clock::time_point until);
  static void end(Incoming& write, Status status);
  // It is over; `pressing`: and when the other side has stalled in the middle of a part, so is the
  // connection.
  void abandon(Incoming& write, const Error& reason, bool pressing);
  void leave(Incoming& write);
  template <class Answer>
  void answerData(std::uint64_t requestId, Result<BytesAnswer> result, std::uint32_t shortest,
                  std::uint32_t longest);
  void queue(std::uint64_t requestId, std::vector<std::byte> frame);

  Agreed with_;
  const Credit limit_;
  PeerHandler& handler_;
  WriteOrder& order_;
  std::span<RdmaShard* const> rdma_;
  std::map<std::uint32_t, std::shared_ptr<RdmaResponder>> responders_;  // by the asker's port
  std::map<std::uint64_t, Serving> serving_;  // by request id; until the answer begins to be sent
  std::uint64_t lastId_ = 0;
  Out asked_, written_;
  [[nodiscard]] Out& outOf(FrameType answer) {
    return answer == FrameType::kWriteAnswer ? written_ : asked_;
  }
  std::map<std::uint64_t, Incoming*> incoming_;  // that are ready, by request id
  // The part that is received; no write: it is passed over.
  Incoming* into_ = nullptr;
  WriteData part_;
};

}  // namespace hearth
