// The RDMA ports over which an engine reads from its peers: which ones it may use, which ones it
// can use, and why not the others. On the home shard's thread, except open() and pin().
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
  kOff,       // the library is not even loaded
  kAuto,      // where it can be used; TCP where not
  kRequired,  // the engine does not start without; a port that fails later leaves TCP
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
  LoadVerbs load = verbsOfMachine;  // another one has only in tests
};

struct RdmaStatistics {
  struct Port {
    std::string name;  // "mlx5_0/1"
    bool active = false;
    bool used = false;  // by this engine, while it is active
    // Bytes are written into the reader's memory; else they come in messages and are copied.
    bool hasWindows = false;
    std::string link;  // "RoCE v2", "RoCE v1", "InfiniBand"
    std::string gid;
    std::uint32_t mtuBytes = 0;
    std::uint64_t bitsPerSecond = 0;  // 0: unknown
    int numaNode = -1;                // -1: unknown
    std::string pciPath;              // empty: unknown
  };
  struct Refusal {
    std::string port, reason;  // `port` is empty when the reason is that of all
  };
  RdmaUse use = RdmaUse::kOff;
  std::string reason;  // why no read goes over RDMA now; empty where one can, and where it is off
  std::vector<Port> ports;  // the best one first
  std::vector<Refusal> refused;
};

class RdmaPorts {
 public:
  RdmaPorts() = default;  // of an engine that uses none
  // Loads the library and opens its ports. Blocks for milliseconds a port: on a helper's thread.
  // With kAuto what cannot be used is said by statistics(); with kRequired the error says it, and
  // what to do.
  [[nodiscard]] static Result<RdmaPorts> open(const RdmaOptions& options);

  [[nodiscard]] RdmaUse use() const { return use_; }
  // Those that reads go over, the best one first: all that could be opened and are not refused.
  [[nodiscard]] std::vector<std::shared_ptr<RdmaDevice>> inUse() const;
  // Has the port pin all of `regions` and know them. Any thread, not an event loop: takes about a
  // second for ten GiB. kOutOfSpace: the limit of locked memory is too low. The kernel counts what
  // several ports pin once for each of them.
  [[nodiscard]] static Status pin(const std::shared_ptr<RdmaDevice>& port,
                                  std::span<const ArenaRegion> regions);
  // Takes the port out of use, although it could be opened; its first reason counts.
  void refuse(const RdmaDevice& port, const Error& reason);
  // pin() has succeeded: reads into the memory for chunks go over that port from now on.
  void notePinned(const RdmaDevice& port);
  // A port is in use; else why none is.
  [[nodiscard]] Status usable() const;
  // As the message of a start that fails.
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
  std::vector<RdmaStatistics::Refusal> refused_;  // that could not be opened
};

}  // namespace hearth
