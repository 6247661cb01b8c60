// Memory of GPUs as the target of reads. No connection of a client reaches such memory: bytes come
// into pinned memory of the host, checked there, and the GPU copies them from there.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "client/driver_calls.h"
#include "gpu/device.h"
#include "memory/memory_vector.h"

namespace hearth::gd2fs {

// The GPU whose memory begins at the address, of a program that has loaded the driver; null for all
// other memory. Any thread.
[[nodiscard]] Result<std::shared_ptr<Device>> gpuAt(std::uint64_t address);

// One GPU, with the pinned memory through which bytes come to it. Any thread; calls that block go
// through calls(). A call that hangs keeps its lane, whose memory the GPU may still read, and with
// that this object.
class GpuMemory : public std::enable_shared_from_this<GpuMemory> {
 public:
  // Room for one part of a request, and the order of its copies. One thread at a time.
  class Lane {
   public:
    [[nodiscard]] std::span<std::byte> bytes() const { return pinned_->bytes(); }

   private:
    friend GpuMemory;
    std::unique_ptr<PinnedMemory> pinned_;
    std::unique_ptr<CopyStream> stream_;  // ends before the memory that it copies
  };

  explicit GpuMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] DriverCalls& calls() { return calls_; }
  // A lane of kChunkBytes, which goes back when it is dropped. May block for milliseconds.
  // kOutOfSpace: pinned memory cannot be had.
  [[nodiscard]] Result<std::shared_ptr<Lane>> lane();
  // Copies `from`, pinned, into a part of this GPU's memory, and waits until it is there.
  // kInvalidArgument: the memory is the GPU's no more.
  [[nodiscard]] Status copy(CopyStream& stream, std::span<const std::byte> from,
                            const MemorySlice& into) const;
  // The same by the lane's stream.
  [[nodiscard]] Status copy(Lane& lane, std::span<const std::byte> from,
                            const MemorySlice& into) const {
    return copy(*lane.stream_, from, into);
  }

 private:
  // That wait for the next part.
  static constexpr std::size_t kMostIdle = 16;

  void giveBack(std::unique_ptr<Lane> lane);

  const std::shared_ptr<Device> device_;
  DriverCalls calls_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;
};

}  // namespace hearth::gd2fs
