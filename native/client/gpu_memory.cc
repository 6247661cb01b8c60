#include "client/gpu_memory.h"

#include <utility>

#include "base/generated/constants.h"
#include "gpu/gpu_runtime.h"

namespace hearth::gd2fs {

Result<std::shared_ptr<Device>> gpuAt(std::uint64_t address) {
  if (!GpuRuntime::isDriverLoaded()) return std::shared_ptr<Device>();
  // For as long as the process: the driver goes on in threads of its own.
  static const auto& runtime =
      *new std::shared_ptr<GpuRuntime>(std::make_shared<GpuRuntime>(GpuRuntime::system()));
  return runtime->deviceAt(address);
}

Result<std::shared_ptr<GpuMemory::Lane>> GpuMemory::lane() {
  std::unique_ptr<Lane> lane;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      lane = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (lane == nullptr) {
    Result<std::unique_ptr<PinnedMemory>> pinned = device_->pin(kChunkBytes);
    if (!pinned.ok()) return pinned.error();
    Result<std::unique_ptr<CopyStream>> stream = device_->stream();
    if (!stream.ok()) return stream.error();
    lane = std::make_unique<Lane>();
    lane->pinned_ = std::move(*pinned);
    lane->stream_ = std::move(*stream);
  }
  return std::shared_ptr<Lane>(lane.release(), [self = shared_from_this()](Lane* back) {
    self->giveBack(std::unique_ptr<Lane>(back));
  });
}

void GpuMemory::giveBack(std::unique_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(lane));
}

Status GpuMemory::copy(CopyStream& stream, std::span<const std::byte> from,
                       const MemorySlice& into) const {
  if (Status there = device_->check(*into.region); !there.ok()) return there;
  Status copied = stream.copyIn(into.region->address() + into.offset, from);
  if (copied.ok()) copied = stream.mark(0);
  if (copied.ok()) copied = stream.wait(0);
  return copied;
}

}  // namespace hearth::gd2fs
