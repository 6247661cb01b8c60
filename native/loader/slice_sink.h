// Where the bytes of slices go: host memory, or a GPU through pinned memory. Not a door: only the
// room uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "memory/memory_region.h"

namespace hearth {

// One thread at a time.
class SliceSink {
 public:
  // `memories`: of each file, null for one of which nothing is wanted; `device` is null for host
  // memory. Of one window at most `windowBytes` are placed. kOutOfSpace without pinned memory.
  [[nodiscard]] static Result<std::unique_ptr<SliceSink>> open(
      std::vector<std::shared_ptr<MemoryRegion>> memories, const std::shared_ptr<Device>& device,
      std::uint64_t windowBytes);
  virtual ~SliceSink() = default;

  // Before the bytes of a window: waits until there is room for them.
  [[nodiscard]] virtual Status begin() = 0;
  // Host memory for bytes that belong at `inMemory` of a file's memory.
  [[nodiscard]] virtual std::byte* place(std::uint64_t file, std::uint64_t inMemory,
                                         std::uint64_t bytes) = 0;
  // All bytes of the window have been written; may return before they have arrived.
  [[nodiscard]] virtual Status end() = 0;
  // Returns when all bytes have arrived.
  [[nodiscard]] virtual Status finish() = 0;
};

}  // namespace hearth
