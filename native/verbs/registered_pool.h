// Buffers of one size in a region that a device knows, for copies of bytes that it does not know.
// One thread, also for the end of a copy.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "memory/memory_vector.h"
#include "verbs/device.h"

namespace hearth {

class RegisteredPool : public std::enable_shared_from_this<RegisteredPool> {
 public:
  // Pins `count` buffers of `bytes` each. kOutOfSpace: the device may not pin so much.
  [[nodiscard]] static Result<std::shared_ptr<RegisteredPool>> create(
      const std::shared_ptr<RdmaDevice>& device, std::size_t count, std::size_t bytes);

  [[nodiscard]] bool hasRoom() const { return !free_.empty(); }
  // These take a buffer: only with room, for at most as many bytes as a buffer has. The owner of
  // the result gives the buffer back, and the pool lives until then. `returned` is called
  // afterwards.
  [[nodiscard]] MemorySlice take(std::uint64_t bytes, std::function<void()> returned = {});
  [[nodiscard]] MemorySlice copyOf(std::span<const std::byte> bytes);
  [[nodiscard]] MemorySlice copyOf(const MemoryVector& memory);

 private:
  std::shared_ptr<MemoryRegion> region_;
  std::size_t bufferBytes_ = 0;
  std::vector<std::size_t> free_;  // numbers of buffers
};

}  // namespace hearth
