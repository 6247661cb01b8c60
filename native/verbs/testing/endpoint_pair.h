// For tests: two endpoints on two hosts of one fabric, and what became of each transfer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "verbs/testing/in_process_verbs.h"
#include "verbs/window.h"

namespace hearth::testing_verbs {

inline void fill(MemoryRegion& region, std::uint64_t seed) {
  std::uint64_t state = seed * 88172645463325252ull + 1;
  for (std::byte& byte : region.bytes()) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
}

struct PairOptions {
  bool connects = true;
  PortOptions left{.name = "left0", .address = 1};
  PortOptions right{.name = "right0", .address = 2};
};

class EndpointPair {
 public:
  struct Side {
    std::shared_ptr<InProcessVerbs> verbs;
    std::shared_ptr<RdmaDevice> device;
    std::unique_ptr<CompletionQueue> queue;
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::uint32_t> immediates;
    std::vector<std::string> messages;
  };

  explicit EndpointPair(PairOptions about = {}) {
    prepare(left, about.left);
    prepare(right, about.right);
    connectEndpoints(about.connects);
  }
  ~EndpointPair() {
    window.reset();
    for (Side* side : {&left, &right}) {
      side->endpoint.reset();
      side->queue.reset();
    }
    // Registrations keep their device.
    held.clear();
    for (Side* side : {&left, &right}) side->device.reset();
    EXPECT_EQ(fabric.objects(), 0u);
  }

  // New endpoints in place of those that have failed.
  void connectEndpoints(bool connects = true) {
    window.reset();
    for (Side* side : {&left, &right}) {
      side->endpoint.reset();
      auto made =
          Endpoint::create(side->device, *side->queue, options, [side](const auto& message) {
            if (message.immediate) side->immediates.push_back(*message.immediate);
            if (message.bytes.empty()) return;
            const auto* const text = reinterpret_cast<const char*>(message.bytes.data());
            side->messages.emplace_back(text, message.bytes.size());
          });
      ASSERT_TRUE(made.ok()) << made.error().message;
      side->endpoint = std::move(*made);
    }
    if (!connects) return;
    ASSERT_TRUE(left.endpoint->connect(right.endpoint->address()).ok());
    ASSERT_TRUE(right.endpoint->connect(left.endpoint->address()).ok());
  }

  [[nodiscard]] std::shared_ptr<MemoryRegion> memory(Side& side, std::size_t bytes) {
    auto region = *MemoryRegion::allocate(bytes);
    EXPECT_TRUE(region->registrationWith(side.device).ok());
    return region;
  }

  [[nodiscard]] std::unique_ptr<Transfer> writing(
      MemoryVector from, std::uint64_t address, std::uint32_t key,
      std::optional<std::uint32_t> immediate = std::nullopt) {
    auto transfer = std::make_unique<Transfer>();
    transfer->local = std::move(from);
    transfer->remoteAddress = address;
    transfer->remoteKey = key;
    transfer->immediate = immediate;
    transfer->settled = [this](const Status& status) { outcomes.push_back(status.code()); };
    return transfer;
  }
  void post(Side& side, std::unique_ptr<Transfer> transfer) {
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::move(transfer));
    side.endpoint->post(std::move(batch));
  }
  void write(Side& side, MemorySlice from, std::uint64_t address, std::uint32_t key,
             std::optional<std::uint32_t> immediate = std::nullopt) {
    post(side, writing(MemoryVector(std::move(from)), address, key, immediate));
  }
  void write(Side& side, MemoryVector from, std::uint64_t address, std::uint32_t key,
             std::optional<std::uint32_t> immediate = std::nullopt) {
    post(side, writing(std::move(from), address, key, immediate));
  }
  // The parts of a region, as one batch.
  void writeEach(MemoryRegion& from, MemoryRegion& into, std::uint32_t key, std::size_t parts) {
    const std::uint64_t size = from.size() / parts;
    std::vector<std::unique_ptr<Transfer>> batch;
    for (std::size_t at = 0; at < parts; ++at) {
      // The caller keeps the region.
      const std::shared_ptr<MemoryRegion> region(&from, [](MemoryRegion*) {});
      batch.push_back(
          writing(MemorySlice{region, at * size, size}, into.address() + at * size, key));
    }
    left.endpoint->post(std::move(batch));
  }
  void send(Side& side, const std::string& text) {
    auto transfer = std::make_unique<Transfer>();
    const auto kept = std::make_shared<std::string>(text);
    transfer->kind = Transfer::Kind::kSend;
    transfer->local =
        MemorySlice::of(std::as_writable_bytes(std::span(kept->data(), kept->size())), kept);
    transfer->settled = [this](const Status& status) { outcomes.push_back(status.code()); };
    post(side, std::move(transfer));
  }

  // Of the right side; 0 when it is refused.
  [[nodiscard]] std::uint32_t openWindow(MemorySlice memory) {
    auto made = Window::create(*right.endpoint);
    if (!made.ok()) return 0;
    window = std::move(*made);
    std::uint32_t key = 0;
    window->open(std::move(memory), [&key](const Result<std::uint32_t>& opened) {
      if (opened.ok()) key = *opened;
    });
    poll();
    return key;
  }
  void closeWindow() {
    window->close([](const Status& status) { EXPECT_TRUE(status.ok()); });
    poll();
  }

  // Takes all completions that are there.
  void poll() {
    while (left.queue->poll() + right.queue->poll() != 0) {
    }
  }
  // The same when nothing more will come.
  void settleAll() {
    poll();
    fabric.endReceiverRetries();
    poll();
  }

  Fabric fabric;
  EndpointOptions options{.sendRequests = 64,
                          .receives = 16,
                          .receiveBytes = 256,
                          .signalEvery = 8,
                          .unregisteredBytes = 64};
  Side left, right;
  std::unique_ptr<Window> window;
  std::vector<ErrorCode> outcomes;  // in the order of settling
  std::vector<std::shared_ptr<MemoryRegion>> held;

 private:
  void prepare(Side& side, PortOptions port) {
    side.verbs = std::make_shared<InProcessVerbs>(fabric, std::vector{std::move(port)});
    Devices found = openDevices(side.verbs);
    ASSERT_EQ(found.usable.size(), 1u)
        << (found.refused.empty() ? "" : found.refused.front().reason.message);
    side.device = std::move(found.usable.front());
    auto queue = CompletionQueue::create(side.device, 1024);
    ASSERT_TRUE(queue.ok()) << queue.error().message;
    side.queue = std::move(*queue);
  }
};

}  // namespace hearth::testing_verbs
