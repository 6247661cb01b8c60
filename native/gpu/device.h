// A place where a program wants bytes: host memory or the memory of one GPU. A Device allocates and
// checks memory and copies between it and pinned host memory. How bytes of files get there is the
// business of DeviceFiles (device_files.h). A device answers kUnsupported, with a sentence, to
// everything that it cannot do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"
#include "memory/memory_region.h"

namespace hearth {

// Host memory that the device copies from and to without the processor. Freed by the destructor,
// which must not run before the copies that use the memory are done.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() const = 0;
};

// Copies that the device makes one after the other. One thread at a time.
class CopyStream {
 public:
  // Waits for the copies that were begun.
  virtual ~CopyStream() = default;
  // Begin a copy and return. The pinned memory must stay as it is, and both must live, until wait()
  // has returned for a later mark(). `address` is inside memory of the device.
  [[nodiscard]] virtual Status copyIn(std::uint64_t address, std::span<const std::byte> pinned) = 0;
  [[nodiscard]] virtual Status copyOut(std::span<std::byte> pinned, std::uint64_t address) = 0;
  // Names the copies begun so far. `slot` is 0 or 1; a later mark of the same slot replaces it.
  [[nodiscard]] virtual Status mark(unsigned slot) = 0;
  // Returns when the copies before the mark are done; at once for a slot without a mark.
  [[nodiscard]] virtual Status wait(unsigned slot) = 0;
};

// One open file whose bytes the device reaches without a copy in host memory.
class DirectFile {
 public:
  virtual ~DirectFile() = default;
  // Both block, on any thread. Offsets and sizes are multiples of kDirectAlignment, except for a
  // read's size at the end of the file; the memory lies inside `region`. They return the bytes
  // moved, which are fewer only at the end of the file.
  [[nodiscard]] virtual Result<std::size_t> read(std::uint64_t offset,
                                                 const std::shared_ptr<MemoryRegion>& region,
                                                 std::uint64_t inRegion, std::size_t size) = 0;
  // The bytes of the file must have been allocated before; a write never makes it longer.
  [[nodiscard]] virtual Result<std::size_t> write(std::uint64_t offset,
                                                  const std::shared_ptr<MemoryRegion>& region,
                                                  std::uint64_t inRegion, std::size_t size) = 0;
};
inline constexpr std::uint64_t kDirectAlignment = 4096;

// A way of the device to files that avoids host memory.
class DirectFiles {
 public:
  virtual ~DirectFiles() = default;
  // For reports: "cuFile by nvidia-fs 2.19", "cuFile by PCI P2PDMA".
  [[nodiscard]] virtual std::string_view description() const = 0;
  // `file` is open with O_DIRECT and stays open for as long as the answer lives. Any thread.
  // kUnsupported: this file system cannot be reached; the message says why.
  [[nodiscard]] virtual Result<std::shared_ptr<DirectFile>> open(int file) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // "cpu", "cuda:0".
  [[nodiscard]] virtual std::string_view name() const = 0;
  // "NVIDIA H100 80GB HBM3".
  [[nodiscard]] virtual std::string_view model() const = 0;
  // Processors reach the memory: the rest of this interface, except allocate(), is kUnsupported.
  [[nodiscard]] virtual bool isHost() const = 0;

  // All of these may be called on any thread.
  //
  // New memory, whose contents are undefined. kOutOfSpace.
  [[nodiscard]] virtual Result<std::shared_ptr<MemoryRegion>> allocate(std::uint64_t bytes) = 0;
  // Memory of the caller (a tensor), which must belong to this device; `owner` lives for as long as
  // the region. kInvalidArgument: it is freed, too short or of another device.
  [[nodiscard]] virtual Result<std::shared_ptr<MemoryRegion>> adopt(
      std::uint64_t address, std::uint64_t bytes, std::shared_ptr<const void> owner) = 0;
  // The memory still is this device's. kInvalidArgument says why it is not.
  [[nodiscard]] virtual Status check(const MemoryRegion& region) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<PinnedMemory>> pin(std::size_t bytes) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<CopyStream>> stream() = 0;
  // The device's way past host memory, opened by the first call, which may take seconds and never
  // longer than its deadline. The answer stays the same for the life of the device.
  [[nodiscard]] virtual Result<std::shared_ptr<DirectFiles>> directFiles() = 0;
  // Returns when the device has reached an event of the caller's (CUevent), which lives until then:
  // work that was given to it before has its results in memory.
  [[nodiscard]] virtual Status waitFor(std::uint64_t event) = 0;
  // A descriptor of the memory for other devices (ibv_reg_dmabuf_mr): [0, size()) of the region
  // begins `offset` bytes into the buffer.
  struct DmaBuf {
    OwnedFd descriptor;
    std::uint64_t offset = 0;
  };
  [[nodiscard]] virtual Result<DmaBuf> exportDmaBuf(const MemoryRegion& region) = 0;
};

}  // namespace hearth
