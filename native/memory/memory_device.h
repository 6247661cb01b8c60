// A device that moves bytes by itself, as an RDMA port does: it must know memory before it reads
// from there or writes to there. Those who bring a kind of device implement both.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"

namespace hearth {

class MemoryRegion;

// A device's knowledge of a region, with its keys. The destructor undoes it, on any thread, before
// the memory goes.
class MemoryRegistration {
 public:
  virtual ~MemoryRegistration() = default;
};

class MemoryDevice {
 public:
  virtual ~MemoryDevice() = default;
  // For messages: "mlx5_0/1".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Once for a region, when it first meets it. Any thread; takes milliseconds a GiB and more, as
  // the pages are brought and pinned. kUnsupported: the device cannot reach memory of this kind.
  [[nodiscard]] virtual Result<std::unique_ptr<MemoryRegistration>> enroll(
      const MemoryRegion& region) = 0;
};

}  // namespace hearth
