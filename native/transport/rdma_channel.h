// Frames of the wire protocol over an RDMA endpoint, one in each message. Both sides use it alike:
// the channel answers pings, and each message tells the other side how many of its messages were
// taken, so that no message meets an endpoint without a receive. On the reactor's thread.
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
  // Valid during the call. `payload`: the bytes behind the frame in its message.
  struct Frame {
    FrameHeader header;
    std::span<const std::byte> body, payload;
  };
  // Called for frames other than ping and pong. An error says that the other side breaks the
  // protocol, and fails the channel.
  using OnFrame = std::function<Status(const Frame&)>;

  // `payloadBytes`: most bytes behind the frame of a message to this side. `shard` must remain live
  // while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<RdmaChannel>> create(RdmaShard& shard,
                                                                   std::uint32_t requests,
                                                                   std::uint32_t payloadBytes,
                                                                   OnFrame onFrame);
  // Calls `ended` once, when the channel fails or the other side closes it; `ended` must not
  // destroy it.
  void onEnd(std::function<void()> ended) { endpoint_->onFailure(std::move(ended)); }

  [[nodiscard]] const EndpointAddress& address() const { return endpoint_->address(); }
  [[nodiscard]] Status connect(const EndpointAddress& theirs);

  // Sends a frame, and behind it `payload`, which the device knows. Posts `before`, which may be
  // null, first: the other side has the frame only when it has all of that. kUnsupported: the other
  // side takes no message of that length. A transfer that fails ends the channel.
  [[nodiscard]] Status send(std::span<const std::byte> frame,
                            std::unique_ptr<Transfer> before = nullptr, MemoryVector payload = {});
  // Reserves a receive of the other side for an answer, so that no memory waits for one; call
  // redeem() just before the answer is sent. False: the other side has no receive left.
  [[nodiscard]] bool promise();
  void redeem() { --promised_; }
  // Sends a ping, which the other side's channel answers by itself.
  [[nodiscard]] Status ping();
  // Tells the other side to free its endpoint. The caller should free this one after `sent` was
  // called.
  void sayGoodbye(std::function<void()> sent);

  // Grows with every message that comes.
  [[nodiscard]] std::uint64_t heard() const { return heard_; }
  // True: data has come back over the channel.
  [[nodiscard]] bool proved() const { return proved_; }
  [[nodiscard]] bool usable() const { return endpoint_->usable(); }
  // Why the channel has ended: kCancelled when a side has closed it.
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
