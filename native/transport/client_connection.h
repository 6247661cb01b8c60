// The asking side of a connection. Multiplexes requests by id, receives payloads straight into the
// caller's memory and compares checksums. The answer to a read may come in parts, where both sides
// have agreed on that. Writes (client_writes.cc) are sent from the caller's memory, part after
// part, by plain sends: between two parts, and after the last, the connection does not use that
// memory. (MSG_ZEROCOPY would keep it until the other side has acknowledged the bytes, and copies
// them all the same on a loopback.) On the reactor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "transport/connection.h"
#include "transport/credit_gate.h"
#include "transport/peer_liveness.h"
#include "transport/rail.h"

namespace hearth {

class ClientConnection final : public Connection, public Rail {
 public:
  // `reactor` and `gate` must remain live while this object is used.
  ClientConnection(Reactor& reactor, Gate& gate, Channel channel, Clock::duration probeInterval,
                   PeerAddress address, std::uint64_t features);

  // Each transfer, and each call below, waits for credit, then for the answer, as long as its
  // deadline allows.
  void post(std::vector<std::unique_ptr<RailWork>> batch) override;
  [[nodiscard]] bool usable() const override { return alive(); }
  [[nodiscard]] bool paused() override;
  // True: the other side has given credit, and so has taken the connection in.
  [[nodiscard]] bool authenticated() const { return authenticated_; }
  // True: not one byte has come for so long, although requests are out and a probe was sent.
  [[nodiscard]] bool silentFor(Clock::duration silence) {
    return alive() && liveness_.isDue(silence) && liveness_.silentFor(silence, progress());
  }
  // When these calls end, nothing uses the caller's memory any more. `received`: how much of `into`
  // was filled; less than all at the manifest's end.
  [[nodiscard]] Task<Outcome> readManifest(Sha256Digest digest, std::uint64_t offset,
                                           std::span<std::byte> into, std::size_t& received,
                                           RequestTimeouts timeouts);
  // Replaces `message` by the answer.
  [[nodiscard]] Task<Outcome> call(ControlMessage& message, RequestTimeouts timeouts);

  // Bytes that requests on this connection still wait for.
  [[nodiscard]] std::uint64_t load() const override { return load_; }
  [[nodiscard]] const PeerAddress& address() const { return address_; }

 private:
  using Request = std::variant<ReadRequest, ManifestRequest, ControlRequest, WriteRequest>;
  // A request that its caller waits for; in the caller's coroutine frame.
  struct Exchange {
    Event done;
    Request request;
    MemoryVector memory = {};  // receives the answer, or has the bytes to write
    std::span<std::uint32_t> checksums = {};
    std::size_t received = 0;
    ControlMessage message;
    Outcome outcome;
    bool moving = false;       // the reader writes into its memory, or the queue reads from it
    bool abandoned = false;    // and must stop
    bool cancelled = false;    // by its poster
    bool answered = false;     // a write whose outcome is known while a part of it is being sent
    std::uint32_t queued = 0;  // bytes of a write given to the queue
  };
  // A request that was sent. Kept until its answer comes, as it holds credit until then.
  struct Sent {
    Exchange* exchange;  // null: the caller has given up
    FrameType answer;
    std::uint64_t cost;
    std::uint32_t length;
    std::uint64_t blocks = 0;  // bit i: block i of the range has come, in a part
    bool ready = false;        // the other side has memory for the write
  };

  Result<bool> onFrame(const Frame& frame) override;
  Task<Status> onPayload() override;
  void onEnd() override;
  void onReaderEnd() override;
  void onSending(const SendQueue::Item& item) override;
  void onSent(const SendQueue::Item& item) override;

  // Writes: client_writes.cc.
  [[nodiscard]] Result<bool> onWriteReady(std::uint64_t requestId);
  [[nodiscard]] Result<bool> onWriteAnswer(const Frame& frame, Sent sent);
  void queuePart(std::uint64_t requestId, Exchange& exchange);

  [[nodiscard]] static Request requestOf(const RailTransfer& transfer);
  static Task<void> carry(std::shared_ptr<Connection> self, std::unique_ptr<RailWork> work);
  static void cancel(Exchange& exchange);
  [[nodiscard]] Task<void> run(Exchange& exchange, RequestTimeouts timeouts);
  // Sends a probe before a silence is over. False: the deadline, the silence or a cancel came
  // first.
  [[nodiscard]] Task<bool> awaitAnswer(Exchange& exchange, RequestTimeouts timeouts);
  // Signs that the other side lives: bytes that it sent, and bytes of writes that it took.
  [[nodiscard]] std::uint64_t progress();
  void submit(Exchange& exchange, Clock::time_point deadline);
  [[nodiscard]] Task<void> giveUp(Exchange& exchange, std::uint64_t requestId,
                                  RequestTimeouts timeouts);
  template <class Answer>
  [[nodiscard]] Result<bool> onData(const Frame& frame, Sent sent);
  // Notes where the payload of an answer belongs, and whether another part follows.
  [[nodiscard]] Status placePart(Sent& sent, const AnswerPart& part, std::uint32_t length) const;
  [[nodiscard]] Result<bool> onControl(const Frame& frame, Sent sent);
  void sendCancel(std::uint64_t requestId);
  void settle(Sent& sent, Outcome outcome);
  // Ends payload_ with the bytes that have come; `intact`: the verdict of the checksums.
  void endPayload(Status intact);
  // Reads and writes have credit of their own.
  [[nodiscard]] CreditGate& creditOf(FrameType answer) {
    return answer == FrameType::kWriteAnswer ? writeCredit_ : credit_;
  }

  PeerAddress address_;
  const std::uint64_t features_;
  CreditGate credit_, writeCredit_;
  PeerLiveness liveness_;
  bool authenticated_ = false;
  bool paused_ = false;
  std::map<std::uint64_t, Sent> sent_;  // by request id
  std::uint64_t lastId_ = 0;
  std::uint64_t load_ = 0;
  // Writes with a part being sent, by request id.
  std::map<std::uint64_t, Exchange*> sending_;
  // Our bytes that the other side's kernel has: in all, and of parts of writes; and an upper bound
  // of bytes of parts that it does not have yet.
  std::uint64_t acknowledged_ = 0, taken_ = 0, partsOut_ = 0;

  // The payload that is being received.
  struct Payload {
    std::uint64_t requestId = 0;
    Sent sent{};
    std::uint32_t offset = 0;  // in the range asked for
    std::uint32_t length = 0;
    bool last = true;
    std::vector<std::uint32_t> checksums;
    bool active = false;
  } payload_;
};

}  // namespace hearth
