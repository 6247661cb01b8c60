// What one shard needs for RDMA: its completion queue, the coroutine that takes completions, and
// registered memory for messages and for answers whose bytes no device knows. On the reactor's
// thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "wire/frame.h"

namespace hearth {

// The control message by which a dialler asks for an endpoint, with an EndpointAddress; the answer
// has one, too.
inline constexpr std::uint16_t kRdmaConnect = kTransportControlFirst;
// Requests that a dialler may have unanswered on one endpoint. The acceptor posts twice as many
// receives, since one is posted again just after its request has been taken.
inline constexpr std::uint32_t kRdmaRequests = 32;

class RdmaShard {
 public:
  // Pins a few megabytes. `arena`: memory that many answers lie in, which is registered too and
  // sent from without a copy; may be null. `reactor` must remain live while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<RdmaShard>> create(
      Reactor& reactor, std::shared_ptr<Device> device, std::shared_ptr<MemoryRegion> arena);
  ~RdmaShard();  // after stop(), and after the endpoints

  // Starts the coroutines in `gate`. `watchesDevice`: of the shards of a device one takes its
  // events.
  void start(Gate& gate, bool watchesDevice);
  void stop();

  [[nodiscard]] Result<std::unique_ptr<Endpoint>> endpoint(Endpoint::OnMessage onMessage);
  [[nodiscard]] const std::shared_ptr<Device>& device() const { return device_; }
  // A copy of `frame` that can be sent; its owner gives the room back. None: all room is taken.
  [[nodiscard]] Result<MemorySlice> message(std::span<const std::byte> frame);
  // `bytes` as memory that the device knows: in place when they lie in the arena and `keep` holds
  // them, else a copy, for which this waits until there is room.
  [[nodiscard]] Task<MemorySlice> readable(std::span<const std::byte> bytes,
                                           std::shared_ptr<const void> keep);

 private:
  struct Pool;  // of buffers of one size in one region
  RdmaShard(Reactor& reactor, std::shared_ptr<Device> device)
      : reactor_(reactor), device_(std::move(device)), room_(reactor, 0) {}
  static Task<void> takeCompletions(RdmaShard& shard);
  static Task<void> takeEvents(RdmaShard& shard);

  Reactor& reactor_;
  const std::shared_ptr<Device> device_;
  std::unique_ptr<CompletionQueue> completions_;
  std::shared_ptr<MemoryRegion> arena_;
  std::shared_ptr<Pool> messages_, staging_;
  Semaphore room_;  // staging buffers
  Operation* waiting_ = nullptr;
  Operation* watching_ = nullptr;
  bool stopping_ = false;
};

}  // namespace hearth
