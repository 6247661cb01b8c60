// For tests on a kernel's devices: two soft-RoCE devices with a cable between them, which
// scripts/rdma/guest/devices.sh makes for each test, and endpoints over libibverbs. As root in the
// machine of `make test-rdma` only: the devices are the whole machine's.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "verbs/loaded_verbs.h"
#include "verbs/window.h"

namespace hearth::testing_verbs {

// Runs devices.sh with these words.
inline bool changeDevices(const std::string& words) {
  const char* const script = std::getenv("HEARTH_RDMA_DEVICES");
  return script != nullptr && std::system((std::string(script) + " " + words).c_str()) == 0;
}

// The devices rxe0 and rxe1, of interfaces with `mtus` ("1500 9000"). Making them takes seconds, so
// they stay for the tests that want the same ones.
class RxeDevices {
 public:
  explicit RxeDevices(const std::string& mtus = "1500 1500") {
    if (present() == mtus) return;
    EXPECT_TRUE(changeDevices("up " + mtus)) << "HEARTH_RDMA_DEVICES names no devices.sh";
    present() = mtus;
  }
  ~RxeDevices() {
    while (isRemoved_ && std::filesystem::exists("/sys/class/infiniband/rxe0"))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  RxeDevices(const RxeDevices&) = delete;
  RxeDevices& operator=(const RxeDevices&) = delete;

  // Starts to. The kernel ends the removal when no process has the devices open; the destructor
  // waits for it, so it comes after that of all RxeSides.
  void remove() {
    isRemoved_ = true;
    present().clear();
    EXPECT_TRUE(changeDevices("down &"));
  }

 private:
  static std::string& present() {
    static std::string mtus;
    return mtus;
  }
  bool isRemoved_ = false;
};

// One end: a device of the machine with an endpoint.
struct RxeSide {
  explicit RxeSide(const std::string& port) {
    auto verbs = loadVerbs();
    EXPECT_TRUE(verbs.ok()) << verbs.error().message;
    Devices found = openDevices(*verbs);
    for (const auto& refusal : found.refused)
      ADD_FAILURE() << refusal.port << ": " << refusal.reason.message;
    for (const auto& usable : found.usable)
      if (usable->name() == port) device = usable;
    if (!device) return;
    auto made = CompletionQueue::create(device, 1024);
    EXPECT_TRUE(made.ok()) << made.error().message;
    queue = std::move(*made);
    connectable();
  }
  ~RxeSide() { release(); }
  RxeSide(const RxeSide&) = delete;
  RxeSide& operator=(const RxeSide&) = delete;

  // A new endpoint in place of the one that has failed.
  void connectable() {
    window.reset();
    endpoint.reset();
    auto created = Endpoint::create(device, *queue, options, [this](const auto& message) {
      if (message.immediate) immediates.push_back(*message.immediate);
    });
    ASSERT_TRUE(created.ok()) << created.error().message;
    endpoint = std::move(*created);
  }
  void release() {
    window.reset();
    endpoint.reset();
    queue.reset();
    device.reset();
  }

  [[nodiscard]] std::shared_ptr<MemoryRegion> memory(std::size_t bytes) const {
    auto region = *MemoryRegion::allocate(bytes);
    const auto known = region->registrationWith(device);
    EXPECT_TRUE(known.ok()) << known.error().message;
    return region;
  }

  void write(MemoryVector from, std::uint64_t address, std::uint32_t key,
             std::optional<std::uint32_t> immediate = std::nullopt) {
    auto transfer = std::make_unique<Transfer>();
    transfer->local = std::move(from);
    transfer->remoteAddress = address;
    transfer->remoteKey = key;
    transfer->immediate = immediate;
    transfer->settled = [this](const Status& status) { outcomes.push_back(status); };
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::move(transfer));
    endpoint->post(std::move(batch));
  }

  // Takes completions until `reached` holds. Fails the test when it does not within a minute.
  void takeUntil(const std::function<bool()>& reached) {
    const auto ends = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!reached()) {
      if (queue->poll() != 0) continue;
      ASSERT_TRUE(queue->arm().ok());
      if (queue->poll() != 0) continue;
      pollfd waiting{.fd = queue->descriptor(), .events = POLLIN, .revents = 0};
      // The state may depend on the other side, which is not waited for here.
      if (::poll(&waiting, 1, 10) > 0) queue->takeEvents();
      ASSERT_LT(std::chrono::steady_clock::now(), ends) << "the state does not come";
    }
  }

  // The key; 0 when it is refused.
  [[nodiscard]] std::uint32_t openWindow(MemorySlice memory) {
    auto made = Window::create(*endpoint);
    EXPECT_TRUE(made.ok()) << made.error().message;
    if (!made.ok()) return 0;
    window = std::move(*made);
    std::optional<std::uint32_t> key;
    window->open(std::move(memory), [&key](const Result<std::uint32_t>& opened) {
      EXPECT_TRUE(opened.ok()) << opened.error().message;
      key = opened.ok() ? *opened : 0;
    });
    takeUntil([&key] { return key.has_value(); });
    return key.value_or(0);
  }
  void closeWindow() {
    bool isClosed = false;
    window->close([&isClosed](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.error().message;
      isClosed = true;
    });
    takeUntil([&isClosed] { return isClosed; });
  }

  EndpointOptions options{};
  std::shared_ptr<RdmaDevice> device;
  std::unique_ptr<CompletionQueue> queue;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<Window> window;
  std::vector<Status> outcomes;  // in the order of settling
  std::vector<std::uint32_t> immediates;
};

// Both ends in this process, connected.
class RxePair {
 public:
  explicit RxePair(const std::string& mtus = "1500 1500") : devices(mtus) {
    EXPECT_TRUE(left.endpoint && right.endpoint);
    connect();
  }

  void connect() {
    const Status ours = left.endpoint->connect(right.endpoint->address());
    EXPECT_TRUE(ours.ok()) << ours.error().message;
    const Status theirs = right.endpoint->connect(left.endpoint->address());
    EXPECT_TRUE(theirs.ok()) << theirs.error().message;
  }
  void connectAgain() {
    left.connectable();
    right.connectable();
    connect();
  }

  RxeDevices devices;
  RxeSide left{"rxe0/1"}, right{"rxe1/1"};
};

}  // namespace hearth::testing_verbs
