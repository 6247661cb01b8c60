// One port of an RDMA device as this engine uses it: its address, its limits, and the memory that
// it knows. Endpoints, windows and registrations keep the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "memory/memory_device.h"
#include "memory/memory_region.h"
#include "verbs/port_address.h"
#include "verbs/verbs.h"

namespace hearth {

// How much of everything one queue pair may have.
struct DeviceLimits {
  std::uint32_t sendRequests = 0, receives = 0;
  std::uint32_t pieces = 0;        // of local memory in one work request
  std::uint32_t completions = 0;   // of one completion queue
  std::uint64_t messageBytes = 0;  // of one work request
  bool hasWindows = false;         // type 2: keys that end with one request
};

struct PortDescription {
  LinkLayer link = LinkLayer::kEthernet;
  std::uint16_t lid = 0;
  std::uint32_t mtuBytes = 0;
  std::uint64_t bitsPerSecond = 0;  // 0: unknown
  std::vector<GidEntry> gids;       // those in use
  std::string pciPath;              // "0000:17:00.0"; empty where sysfs does not tell
  int numaNode = -1;                // -1: unknown
};

class RdmaDevice final : public MemoryDevice, public std::enable_shared_from_this<RdmaDevice> {
 public:
  // Opens port `port` (the first is 1). Takes milliseconds. kPermissionDenied, kUnsupported for a
  // port without address or transport, kUnavailable for one that is down; the message says what to
  // do.
  [[nodiscard]] static Result<std::shared_ptr<RdmaDevice>> open(std::shared_ptr<Verbs> verbs,
                                                                ibv_device* device,
                                                                std::uint8_t port);
  ~RdmaDevice() override;

  // "mlx5_0/1". Any thread.
  [[nodiscard]] std::string_view name() const override { return name_; }
  // Pins the pages and gives the device keys of them. Remote agents get none of these: they are
  // given windows (window.h). kOutOfSpace says that RLIMIT_MEMLOCK is too low.
  [[nodiscard]] Result<std::unique_ptr<MemoryRegistration>> enroll(
      const MemoryRegion& region) override;
  // Null when no registrationWith() of the region has succeeded. Any thread.
  [[nodiscard]] ibv_mr* registeredAs(const MemoryRegion& region) const;

  [[nodiscard]] const PortDescription& port() const { return port_; }
  [[nodiscard]] const GidEntry& gid() const { return gid_; }
  // Of port().gids, in place of the one that Hearth prefers; before the first endpoint. kNotFound.
  [[nodiscard]] Status useGid(int index);
  [[nodiscard]] const DeviceLimits& limits() const { return limits_; }
  [[nodiscard]] std::uint8_t portNumber() const { return portNumber_; }
  [[nodiscard]] Verbs& verbs() const { return *verbs_; }
  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }

  // The port is active, as far as events have told. Any thread.
  [[nodiscard]] bool usable() const { return state_.load() == State::kActive; }
  // Becomes readable when takeEvents() has something to take.
  [[nodiscard]] int eventDescriptor() const { return context_->async_fd; }
  // Takes what has come, without waiting; one thread. A port that is down comes back by itself, a
  // device that has failed does not. Gives the numbers of queue pairs that the device has failed.
  std::vector<std::uint32_t> takeEvents();

 private:
  enum class State : std::uint8_t { kActive, kDown, kFailed };
  explicit RdmaDevice(std::shared_ptr<Verbs> verbs) : verbs_(std::move(verbs)) {}
  [[nodiscard]] Status describe(ibv_device* device);
  void readGids(int count);
  void readPlace(ibv_device* device);

  const std::shared_ptr<Verbs> verbs_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  std::uint8_t portNumber_ = 0;
  std::string name_;
  PortDescription port_;
  GidEntry gid_;
  DeviceLimits limits_;
  std::atomic<State> state_{State::kActive};
};

// All ports that can be used, and why the others cannot.
struct Devices {
  std::vector<std::shared_ptr<RdmaDevice>> usable;
  struct Refusal {
    std::string port;  // "mlx5_0/1", or "" of the whole library
    Error reason;
  };
  std::vector<Refusal> refused;
};
// Devices near NUMA node `near` come first, of these the fastest. Takes milliseconds a device.
[[nodiscard]] Devices openDevices(const std::shared_ptr<Verbs>& verbs, int near = -1);

}  // namespace hearth
