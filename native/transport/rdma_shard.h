// One shard's resources for an RDMA port: its completion queues, the coroutines that take
// completions, and registered memory for messages and answers. On the reactor's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/held_slots.h"
#include "transport/staging_buffers.h"
#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "verbs/registered_pool.h"
#include "wire/frame.h"

namespace hearth {

// The control message by which a dialler asks for an endpoint: an EndpointAddress and, unless the
// number is 0, the u32 number of the dialler's port among its ports. The answer has the address of
// the acceptor's endpoint. A dialler has one endpoint for each of its ports.
inline constexpr std::uint16_t kRdmaConnect = kTransportControlFirst;
// More ports of one agent than any machine has.
inline constexpr std::uint32_t kRdmaPorts = 64;
// Endpoints that this agent has for one peer's reads, of one shard and port, in all the connections
// of the peer: twice as many as it may have ports, as an endpoint lives on for a while after a
// newer one has taken its place.
inline constexpr std::size_t kEndpointsPerPeer = std::size_t{2} * kRdmaPorts;
// Requests that a dialler may have unanswered on one endpoint.
inline constexpr std::uint32_t kRdmaRequests = 32;
// Longest message of an endpoint, without the bytes of an answer.
inline constexpr std::uint32_t kRdmaMessageBytes = 4096;

// As in TransportOptions.
struct RdmaTimes {
  Clock::duration silence = Clock::duration::max();
  Clock::duration idle = Clock::duration::max();
  Clock::duration hold = Clock::duration::max();
};

class RdmaShard {
 public:
  // The slots in which most answers lie. Once the owner of a region has registered it, answers
  // leave from there without a copy, as many at a time as `held` allows.
  struct Arena {
    std::vector<std::shared_ptr<MemoryRegion>> regions;
    std::shared_ptr<HeldSlots> held;
  };
  // Pins a few megabytes. `reactor` must remain live while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<RdmaShard>> create(Reactor& reactor,
                                                                 std::shared_ptr<RdmaDevice> device,
                                                                 Arena arena, RdmaTimes times);
  ~RdmaShard();  // after stop(), and after the endpoints

  // Starts the coroutines in `gate`. `watchesDevice`: takes the device's events, which one shard of
  // each device must do.
  void start(Gate& gate, bool watchesDevice);
  void stop();

  // A place among the endpoints for the reads of `peer`, until the result goes, which must be on
  // this thread and while this object lives. Null: the peer has kEndpointsPerPeer.
  [[nodiscard]] std::shared_ptr<const void> admit(const std::string& peer);
  // How many of `wanted` requests may be unanswered on one endpoint: it has receives for all
  // messages of the other side about them.
  [[nodiscard]] std::uint32_t requestsOf(std::uint32_t wanted) const;
  // Creates an endpoint with room for the messages of so many unanswered requests, of
  // `receiveBytes` each.
  [[nodiscard]] Result<std::unique_ptr<Endpoint>> endpoint(std::uint32_t requests,
                                                           std::uint32_t receiveBytes,
                                                           Endpoint::OnMessage onMessage);
  [[nodiscard]] const RdmaTimes& times() const { return times_; }
  // Takes the completions that are there now, ahead of the coroutine.
  void takeNow();
  [[nodiscard]] const std::shared_ptr<RdmaDevice>& device() const { return device_; }
  // A registered copy of `frame`; dropping its owner gives the room back. kOutOfSpace: the device
  // may pin no more room for messages.
  [[nodiscard]] Result<MemorySlice> message(std::span<const std::byte> frame);
  // `bytes`, which `keep` owns, as memory that the device knows, for an answer to `peer`. Nothing
  // unless they lie in a registered slot of the arena and the peer may hold that slot.
  [[nodiscard]] std::optional<MemorySlice> inPlace(const std::string& peer,
                                                   std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> keep);
  // For copies of other answers.
  [[nodiscard]] StagingBuffers& staging() { return *staging_; }

 private:
  // A completion queue has room for some endpoints; there are as many queues as endpoints need.
  struct Queue {
    std::unique_ptr<CompletionQueue> completions;
    Operation* waiting = nullptr;
  };
  RdmaShard(Reactor& reactor, std::shared_ptr<RdmaDevice> device, RdmaTimes times)
      : reactor_(reactor), device_(std::move(device)), times_(times) {}
  [[nodiscard]] Result<Queue*> addQueue();
  static Task<void> takeCompletions(RdmaShard& shard, Queue& queue);
  static Task<void> takeEvents(RdmaShard& shard);

  Reactor& reactor_;
  const std::shared_ptr<RdmaDevice> device_;
  const RdmaTimes times_;
  std::vector<std::unique_ptr<Queue>> queues_;
  Gate* gate_ = nullptr;  // since start()
  Arena arena_;
  std::vector<std::shared_ptr<RegisteredPool>> messages_;  // more when all are under way
  std::unique_ptr<StagingBuffers> staging_;
  std::map<std::string, std::size_t> endpoints_;  // by peer, none of 0
  Operation* watching_ = nullptr;
  bool stopping_ = false;
};

}  // namespace hearth
