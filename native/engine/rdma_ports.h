// The RDMA ports over which an engine reads from its peers: which of them it may use and can use,
// and why not the others. On the home shard's thread, except open() and pin().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "base/result.h"
#include "verbs/device.h"

namespace hearth {

enum class RdmaUse : std::uint8_t {
  kOff,       // does not even load the library
  kAuto,      // RDMA where it works, else TCP
  kRequired,  // the engine does not start without RDMA; a port that fails later leaves TCP
};

using LoadVerbs = std::function<Result<std::shared_ptr<Verbs>>(const std::string& library)>;

// libibverbs of this machine; "" for `library` takes the usual one.
[[nodiscard]] Result<std::shared_ptr<Verbs>> verbsOfMachine(const std::string& library);

struct RdmaOptions {
  RdmaUse use = RdmaUse::kOff;
  // Ports that may be used, as patterns (fnmatch(3)) of a device, "mlx5_*", or of one of its ports,
  // "mlx5_0/1". Empty: all.
  std::vector<std::string> devices;
  std::string library;              // name or path of libibverbs; empty: the usual one
  LoadVerbs load = verbsOfMachine;  // tests use others
};

struct RdmaStatistics {
  struct Port {
    std::string name;  // "mlx5_0/1"
    bool active = false;
    bool used = false;  // by this engine, while it is active
    // True: peers write into the reader's memory; false: bytes come in messages and are copied.
    bool hasWindows = false;
    std::string link;  // "RoCE v2", "RoCE v1", "InfiniBand"
    std::string gid;
    std::uint32_t mtuBytes = 0;
    std::uint64_t bitsPerSecond = 0;  // 0: unknown
    int numaNode = -1;                // -1: unknown
    std::string pciPath;              // empty: unknown
  };
  struct Refusal {
    std::string port, reason;  // `port` is empty when the reason holds for all
  };
  RdmaUse use = RdmaUse::kOff;
  std::string reason;  // why no read goes over RDMA now; empty where one can, and where it is off
  std::vector<Port> ports;  // the best one first
  std::vector<Refusal> refused;
};

class RdmaPorts {
 public:
  RdmaPorts() = default;  // for an engine that uses none
  // Loads the library and opens its ports. Blocks for milliseconds a port; on a helper's thread.
  // With kAuto statistics() says which ports cannot be used; with kRequired the error says it, and
  // the remedy.
  [[nodiscard]] static Result<RdmaPorts> open(const RdmaOptions& options);

  [[nodiscard]] RdmaUse use() const { return use_; }
  // The ports that reads go over, the best one first: all that were opened and not refused.
  [[nodiscard]] std::vector<std::shared_ptr<RdmaDevice>> inUse() const;
  // Makes the port pin all of `regions` and know them. Any thread but an event loop: takes about a
  // second for ten GiB. kOutOfSpace: the limit of locked memory is too low. The kernel counts
  // memory that several ports pin once for each of them.
  [[nodiscard]] static Status pin(const std::shared_ptr<RdmaDevice>& port,
                                  std::span<const ArenaRegion> regions);
  // Takes an opened port out of use; the first reason counts.
  void refuse(const RdmaDevice& port, const Error& reason);
  // Call after pin() has succeeded: reads into the memory for chunks go over that port from now on.
  void notePinned(const RdmaDevice& port);
  // Ok: a port is in use; else why none is.
  [[nodiscard]] Status usable() const;
  // `reason` as the error of a start that fails.
  [[nodiscard]] static Error required(const Error& reason);
  [[nodiscard]] RdmaStatistics statistics() const;

 private:
  struct Port {
    std::shared_ptr<RdmaDevice> device;
    bool isPinned = false;
    std::optional<Error> refusal = std::nullopt;
  };
  [[nodiscard]] Port& portOf(const RdmaDevice& device);

  RdmaUse use_ = RdmaUse::kOff;
  std::optional<Error> none_;                     // why no port could be opened
  std::vector<Port> ports_;                       // the best one first
  std::vector<RdmaStatistics::Refusal> refused_;  // ports that could not be opened
};

}  // namespace hearth
