// The answering side of a connection: starts a handler for each request and sends its answer from
// the handler's memory. Receives writes (server_writes.cc) into the handler's memory, and compares
// them, before the handler hears of them. Holds the other side to its credit. On the reactor's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "transport/client_shares.h"
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

  // Sends the other side its credit. Call after start().
  void giveCredit();
  // Call before start(): the other side gets endpoints of `shards`, one for each port.
  void useRdma(std::span<RdmaShard* const> shards) { rdma_ = shards; }
  // Call before start(), for a client: its requests count there.
  void limitRequests(ClientShares& requests) { requests_ = &requests; }
  [[nodiscard]] const std::string& node() const { return with_.node; }
  [[nodiscard]] const std::string& incarnation() const { return with_.incarnation; }
  [[nodiscard]] const Capability* client() const { return with_.client.get(); }  // null: an agent

 private:
  struct Serving {
    FrameType answer;
    std::uint64_t cost = 0;
    RequestClass requestClass = RequestClass::kDemand;
    Interest interest{};
    bool cancelled = false;
    bool ready = false;  // for the bytes of a write
  };
  // The part of one kind of credit that is out.
  struct Out {
    std::uint64_t bytes = 0, requests = 0;
  };
  // A write being received; in the frame of its receiveWrite().
  struct Incoming {
    Event ended;  // the write is over, and nothing is received into its memory any more
    const MemoryVector* memory;
    std::uint32_t received = 0;
    std::vector<std::uint32_t> checksums = {};
    bool receiving = false, over = false;
    Status status = {};  // once over: ok when all has come
  };

  Result<bool> onFrame(const Frame& frame) override;
  Task<Status> onPayload() override;
  void onEnd() override;
  void onReaderEnd() override;
  void onSending(const SendQueue::Item& item) override;

  // Ok unless a client may not send such a frame, or its capability no longer holds.
  [[nodiscard]] Status allow(FrameType type) const;
  [[nodiscard]] Status admit(std::uint64_t requestId, Serving serving);
  // Answers that the client has too many requests under way for one of that size.
  void refuse(std::uint64_t requestId, FrameType answer, std::uint64_t memory);
  void cancel(std::uint64_t requestId);
  using Self = std::shared_ptr<ServerConnection>;
  [[nodiscard]] Self self();
  // Takes the request in and starts serve().
  template <class Request>
  [[nodiscard]] Result<bool> onRequest(const Frame& frame);
  // `share`: of the memory for requests of clients; kept until nothing of the request is left.
  using Share = ClientShares::Share;
  static Task<void> serve(Self self, std::uint64_t requestId, ReadRequest request,
                          Interest interest, Share share);
  static Task<void> serve(Self self, std::uint64_t requestId, ManifestRequest request,
                          Interest interest, Share share);
  static Task<void> serve(Self self, std::uint64_t requestId, ControlRequest request,
                          Interest interest, Share share);
  void answerControl(std::uint64_t requestId, Result<ControlMessage> result, Share share);
  // Makes an endpoint in place of the one that the asker's port may have. The answer has its
  // address.
  [[nodiscard]] Result<ControlMessage> connectRdma(const ControlMessage& request);
  // Frees the endpoint when it has ended.
  static Task<void> keep(Self self, std::uint32_t port, std::shared_ptr<RdmaResponder> responder);
  // Writes: server_writes.cc.
  static Task<void> serve(Self self, std::uint64_t requestId, WriteRequest request,
                          Interest interest, Share share);
  [[nodiscard]] Result<bool> onWriteData(const Frame& frame);
  // Returns how the write ended. Afterwards nothing writes into its memory.
  [[nodiscard]] Task<Status> receiveWrite(std::uint64_t requestId, WriteRequest request,
                                          Interest interest);
  // Waits until all has come, or the write is over otherwise: at `until` at the latest, and soon
  // after.
  [[nodiscard]] Task<void> awaitData(Incoming& write, Clock::time_point until);
  static void end(Incoming& write, Status status);
  // Ends the write. `pressing`: also ends the connection if the other side has stalled in the
  // middle of a part.
  void abandon(Incoming& write, const Error& reason, bool pressing);
  void leave(Incoming& write);
  template <class Answer>
  void answerData(std::uint64_t requestId, Result<BytesAnswer> result, std::uint32_t shortest,
                  std::uint32_t longest);
  void queue(std::uint64_t requestId, std::vector<std::byte> frame, Share share = nullptr);

  Agreed with_;
  const Credit limit_;
  PeerHandler& handler_;
  WriteOrder& order_;
  ClientShares* requests_ = nullptr;
  std::span<RdmaShard* const> rdma_;
  std::map<std::uint32_t, std::shared_ptr<RdmaResponder>> responders_;  // by the asker's port
  std::map<std::uint64_t, Serving> serving_;  // by request id; until the answer begins to be sent
  std::uint64_t lastId_ = 0;
  Out asked_, written_;
  [[nodiscard]] Out& outOf(FrameType answer) {
    return answer == FrameType::kWriteAnswer ? written_ : asked_;
  }
  std::map<std::uint64_t, Incoming*> incoming_;  // ready writes, by request id
  // The write whose part is being received; null: the part is passed over.
  Incoming* into_ = nullptr;
  WriteData part_;
};

}  // namespace hearth
