// A reliable connected queue pair of a device and the receives that it has posted. The endpoint
// (endpoint.h) decides what goes over it. One thread, that of the completion queue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "verbs/completion_queue.h"
#include "verbs/device.h"

namespace hearth {

struct EndpointOptions {
  std::uint32_t sendRequests = 128;
  std::uint32_t receives = 64;
  std::uint32_t receiveBytes = 4096;
  std::uint32_t signalEvery = 16;   // work requests
  std::uint32_t inlineBytes = 128;  // at most; fewer where the device takes no more
};

// In the id of a work request: it is a receive, and the other bits are its number.
inline constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;

class QueuePair {
 public:
  // `options`: of which the device and its limits take some away, as options() tells. `taker` hears
  // of completions until this object ends; both it and `completions` must remain live until then.
  // kOutOfSpace: the completion queue has no room, or memory may not be pinned.
  [[nodiscard]] static Result<std::unique_ptr<QueuePair>> create(std::shared_ptr<Device> device,
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
  [[nodiscard]] const std::shared_ptr<Device>& device() const { return device_; }

 private:
  QueuePair(std::shared_ptr<Device> device, CompletionQueue& completions, EndpointOptions options);
  [[nodiscard]] Status createPair(CompletionQueue::Taker& taker);
  [[nodiscard]] Status postReceives();
  [[nodiscard]] Status modify(ibv_qp_attr& attributes, int mask, const char* to);

  const std::shared_ptr<Device> device_;
  CompletionQueue& completions_;
  EndpointOptions options_;
  ibv_qp* pair_ = nullptr;
  std::uint32_t reserved_ = 0;  // in the completion queue
  EndpointAddress address_;
  std::shared_ptr<MemoryRegion> receives_;
};

}  // namespace hearth
