// Moves blocks between files and the memory of a GPU. Not a door: only the room uses it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "blocks/block_transfers.h"
#include "gpu/device_files.h"

namespace hearth {

// Any thread.
class DeviceBlocks {
 public:
  // `direct`: past host memory where that is faster or, without such a way, through pinned memory
  // past the page cache; otherwise through pinned memory and the page cache. As
  // DeviceFiles::open().
  [[nodiscard]] static Result<std::shared_ptr<DeviceBlocks>> open(std::shared_ptr<Device> device,
                                                                  unsigned threads, bool direct);

  // Transfers inside of [address, address + bytes) are checked and made known to the device
  // together, once, and not each by itself. The memory stays as it is for the life of this object.
  // kInvalidArgument: not memory of the device.
  [[nodiscard]] Status enroll(std::uint64_t address, std::uint64_t bytes);

  // As loadBlock() and dumpBlock(); of the memory as Device::adopt().
  [[nodiscard]] Status load(const BlockTransfer& transfer);
  [[nodiscard]] Status dump(const BlockTransfer& transfer);

  // Returns when the GPU has reached the event (CUevent). As Device::waitFor().
  [[nodiscard]] Status waitFor(std::uint64_t event) { return device_->waitFor(event); }

 private:
  DeviceBlocks(std::shared_ptr<Device> device, std::unique_ptr<DeviceFiles> files)
      : device_(std::move(device)), files_(std::move(files)) {}
  [[nodiscard]] Result<MemorySlice> sliceOf(const BlockTransfer& transfer);

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<DeviceFiles> files_;
  std::mutex mutex_;                                                 // guards all below
  std::map<std::uint64_t, std::shared_ptr<MemoryRegion>> enrolled_;  // by address
};

}  // namespace hearth
