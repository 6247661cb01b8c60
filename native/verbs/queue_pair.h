// A reliable connected queue pair of a device and the receives that it has posted. The endpoint
// (endpoint.h) decides what goes over it. One thread, that of the completion queue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/registered_pool.h"

namespace hearth {

struct EndpointOptions {
  std::uint32_t sendRequests = 128;
  std::uint32_t receives = 64;
  std::uint32_t receiveBytes = 4096;
  std::uint32_t signalEvery = 16;  // work requests
  // A message of so many bytes may lie in memory that the device does not know. The request has it
  // inline, as far as the device takes that; else it is copied into registered memory.
  std::uint32_t unregisteredBytes = 128;
};

// In the id of a work request: it is a receive, and the other bits are its number.
inline constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;

class QueuePair {
 public:
  // `options`: of which the device and its limits take some away, as options() tells. `taker` hears
  // of completions until this object ends; both it and `completions` must remain live until then.
  // kOutOfSpace: the completion queue has no room, or memory may not be pinned.
  [[nodiscard]] static Result<std::unique_ptr<QueuePair>> create(std::shared_ptr<RdmaDevice> device,
                                                                 CompletionQueue& completions,
                                                                 CompletionQueue::Taker& taker,
                                                                 EndpointOptions options);
  // The device uses nothing of it afterwards.
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // For the other side, over a connection that has authenticated both.
  [[nodiscard]] const EndpointAddress& address() const { return address_; }
  // Once, to what the other side calls itself. Errors leave the queue pair unusable.
  [[nodiscard]] Status connect(const EndpointAddress& theirs);
  // Has the device flush what is posted, if there still is a device.
  void abort();

  // 0, or an errno value; then `bad` is the request at which the device has stopped.
  [[nodiscard]] int post(ibv_send_wr* requests, ibv_send_wr** bad);
  // Posts receive `index` (again).
  [[nodiscard]] Status postReceive(std::uint32_t index);
  // The first `bytes` of that receive.
  [[nodiscard]] std::span<const std::byte> received(std::uint64_t index,
                                                    std::uint32_t bytes) const {
    return receives_->bytes().subspan(index * options_.receiveBytes, bytes);
  }

  [[nodiscard]] const EndpointOptions& options() const { return options_; }
  // Of one request, that the device takes inline; at most options().unregisteredBytes.
  [[nodiscard]] std::uint32_t inlineBytes() const { return inlineBytes_; }
  // A copy of at most options().unregisteredBytes that the device knows. There is room for one in
  // each request that is posted. Only where inlineBytes() are fewer.
  [[nodiscard]] MemorySlice copyOf(const MemoryVector& message) const {
    return copies_->copyOf(message);
  }
  [[nodiscard]] const std::shared_ptr<RdmaDevice>& device() const { return device_; }

 private:
  QueuePair(std::shared_ptr<RdmaDevice> device, CompletionQueue& completions,
            EndpointOptions options);
  [[nodiscard]] Status createPair(CompletionQueue::Taker& taker);
  // With as much room for inline bytes as the device takes; null with errno when it takes none.
  [[nodiscard]] ibv_qp* createWith(ibv_qp_init_attr& about);
  [[nodiscard]] Status postReceives();
  [[nodiscard]] Status modify(ibv_qp_attr& attributes, int mask, const char* to);

  const std::shared_ptr<RdmaDevice> device_;
  CompletionQueue& completions_;
  EndpointOptions options_;
  ibv_qp* pair_ = nullptr;
  std::uint32_t reserved_ = 0;  // in the completion queue
  std::uint32_t inlineBytes_ = 0;
  std::shared_ptr<RegisteredPool> copies_;  // null unless inline bytes are fewer
  EndpointAddress address_;
  std::shared_ptr<MemoryRegion> receives_;
};

}  // namespace hearth
