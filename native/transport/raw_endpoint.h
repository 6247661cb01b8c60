// An RDMA endpoint that says what a test wants, and an address where nobody is. For tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/rdma_shard.h"
#include "transport/rdma_test_pair.h"
#include "verbs/completion_queue.h"
#include "verbs/endpoint.h"

namespace hearth {

// Has a thread of its own.
class RawEndpoint {
 public:
  // Called on that thread, with the endpoint locked.
  using OnMessage = std::function<void(RawEndpoint&, std::span<const std::byte>)>;

  RawEndpoint(Fabric& fabric, PortOptions port, OnMessage onMessage, std::uint32_t receives = 72)
      : onMessage_(std::move(onMessage)) {
    Devices found =
        openDevices(std::make_shared<InProcessVerbs>(fabric, std::vector{std::move(port)}));
    device_ = found.usable.at(0);
    queue_ = std::move(*CompletionQueue::create(device_, 1024));
    EndpointOptions options;
    options.receives = receives;
    options.receiveBytes = kRdmaMessageBytes;
    endpoint_ = std::move(*Endpoint::create(device_, *queue_, options, [this](const auto& message) {
      onMessage_(*this, message.bytes);
    }));
    memory_ = *MemoryRegion::allocate(kChunkBytes);
    EXPECT_TRUE(memory_->registrationWith(device_).ok());
    thread_ = std::thread([this] {
      while (!ended_) {
        {
          const std::lock_guard lock(mutex_);
          if (!deaf_) queue_->poll();
        }
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~RawEndpoint() {
    ended_ = true;
    thread_.join();
  }
  RawEndpoint(const RawEndpoint&) = delete;
  RawEndpoint& operator=(const RawEndpoint&) = delete;

  [[nodiscard]] EndpointAddress address() const { return endpoint_->address(); }
  [[nodiscard]] Status connect(const EndpointAddress& theirs) {
    const std::lock_guard lock(mutex_);
    return endpoint_->connect(theirs);
  }
  // Makes the endpoint take nothing any more, so that its receives run out.
  void deafen() { deaf_ = true; }
  void send(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    std::ranges::copy(bytes, memory_->bytes().begin());
    post({.kind = Transfer::Kind::kSend, .local = MemorySlice{memory_, 0, bytes.size()}});
  }
  void write(std::uint64_t address, std::uint32_t key, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    post({.local = MemorySlice{memory_, 0, bytes}, .remoteAddress = address, .remoteKey = key});
  }
  [[nodiscard]] bool usable() {
    const std::lock_guard lock(mutex_);
    return endpoint_->usable();
  }

 private:
  void post(Transfer transfer) {
    endpoint_->addCredit(1);
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::make_unique<Transfer>(std::move(transfer)));
    endpoint_->post(std::move(batch));
  }

  const OnMessage onMessage_;
  std::recursive_mutex mutex_;
  std::shared_ptr<RdmaDevice> device_;
  std::shared_ptr<MemoryRegion> memory_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> endpoint_;
  std::atomic<bool> ended_{false}, deaf_{false};
  std::thread thread_;
};

// A well-formed address where nobody is.
inline EndpointAddress plausible() {
  EndpointAddress address;
  address.mtuBytes = 4096;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 99};
  address.queuePair = 0x4711;
  address.receives = 72;
  address.receiveBytes = kRdmaMessageBytes;
  return address;
}

}  // namespace hearth
