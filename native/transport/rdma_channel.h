// Frames of the wire protocol over an RDMA endpoint, one in each message. Both sides use it alike:
// pings are answered, and each message tells the other side how many of its messages were taken, so
// that no message meets an endpoint without a receive. On the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "transport/rdma_shard.h"
#include "wire/frame.h"

namespace hearth {

class RdmaChannel {
 public:
  // Valid during the call. `payload`: what the message has behind the frame.
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> body, payload;
  };
  // Neither ping nor pong. An error says that the other side breaks the protocol, and fails it.
  using OnFrame = std::function<Status(const Frame&)>;

  // `payloadBytes`: that a message to this side may have behind its frame. `shard` must remain live
  // while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<RdmaChannel>> create(RdmaShard& shard,
                                                                   std::uint32_t requests,
                                                                   std::uint32_t payloadBytes,
                                                                   OnFrame onFrame);
  // `ended` is called once, when it fails or the other side closes it, and may not destroy it.
  void onEnd(std::function<void()> ended) { endpoint_->onFailure(std::move(ended)); }

  [[nodiscard]] const EndpointAddress& address() const { return endpoint_->address(); }
  [[nodiscard]] Status connect(const EndpointAddress& theirs);

  // Sends a frame, and `payload`, which the device knows, behind it. `before`, which may be null,
  // is posted first: the other side has the frame only when it has all of that. kUnsupported: the
  // other side takes no message of that length. A transfer that fails ends the channel.
  [[nodiscard]] Status send(std::span<const std::byte> frame,
                            std::unique_ptr<Transfer> before = nullptr, MemoryVector payload = {});
  // Keeps a receive of the other side for an answer, so that no memory waits for one; redeem() just
  // before the answer is sent. False: the other side has no receive for it.
  [[nodiscard]] bool promise();
  void redeem() { --promised_; }
  // The other side answers it by itself.
  [[nodiscard]] Status ping();
  // The other side frees its endpoint, and so should this one after `sent` was called.
  void sayGoodbye(std::function<void()> sent);

  // Grows with every message that comes.
  [[nodiscard]] std::uint64_t heard() const { return heard_; }
  // Data has come back over it.
  [[nodiscard]] bool proved() const { return proved_; }
  [[nodiscard]] bool usable() const { return endpoint_->usable(); }
  // Why it has ended: kCancelled when a side has closed it.
  [[nodiscard]] Error failure() const;
  void fail(Error reason) { endpoint_->fail(std::move(reason)); }
  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

 private:
  RdmaChannel(RdmaShard& shard, OnFrame onFrame) : shard_(shard), onFrame_(std::move(onFrame)) {}
  void onMessage(const Endpoint::Message& message);
  [[nodiscard]] Status take(const Endpoint::Message& message);
  void post(std::unique_ptr<Transfer> before, std::unique_ptr<Transfer> message);

  RdmaShard& shard_;
  const OnFrame onFrame_;
  std::unique_ptr<Endpoint> endpoint_;
  std::uint32_t theirReceiveBytes_ = 0;
  std::uint32_t unreported_ = 0;  // messages taken, of which the other side does not know
  std::uint32_t promised_ = 0;    // receives of the other side that answers will take
  std::uint64_t heard_ = 0;
  bool proved_ = false;
};

}  // namespace hearth
