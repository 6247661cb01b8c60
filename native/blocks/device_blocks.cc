#include "blocks/device_blocks.h"

#include <algorithm>

#include "blocks/block_file.h"

namespace hearth {
namespace {

// Each has pinned memory of two slices.
constexpr unsigned kMaxLanes = 16;
constexpr std::size_t kSliceBytes = std::size_t{1} << 20;

bool isInside(const MemoryRegion& region, std::uint64_t address, std::uint64_t bytes) {
  return address >= region.address() && address - region.address() <= region.size() &&
         bytes <= region.size() - (address - region.address());
}

}  // namespace

Result<std::shared_ptr<DeviceBlocks>> DeviceBlocks::open(std::shared_ptr<Device> device,
                                                         unsigned threads, bool direct) {
  DeviceFiles::Options options;
  options.choice = direct ? DeviceFiles::Choice::kMeasured : DeviceFiles::Choice::kBounced;
  options.lanes = std::clamp(threads, 1U, kMaxLanes);
  options.sliceBytes = kSliceBytes;
  options.throughPageCache = !direct;
  auto files = DeviceFiles::open(device, options);
  if (!files) return files.error();
  return std::shared_ptr<DeviceBlocks>(new DeviceBlocks(std::move(device), std::move(*files)));
}

Status DeviceBlocks::enroll(std::uint64_t address, std::uint64_t bytes) {
  auto region = device_->adopt(address, bytes, nullptr);
  if (!region) return region.error();
  const std::lock_guard lock(mutex_);
  enrolled_.insert_or_assign(address, std::move(*region));
  return {};
}

Result<MemorySlice> DeviceBlocks::sliceOf(const BlockTransfer& transfer) {
  const auto address = reinterpret_cast<std::uintptr_t>(transfer.memory);
  {
    const std::lock_guard lock(mutex_);
    const auto after = enrolled_.upper_bound(address);
    if (after != enrolled_.begin()) {
      const std::shared_ptr<MemoryRegion>& region = std::prev(after)->second;
      if (isInside(*region, address, transfer.size)) {
        return MemorySlice{region, address - region->address(), transfer.size};
      }
    }
  }
  auto region = device_->adopt(address, transfer.size, nullptr);
  if (!region) return region.error();
  return MemorySlice{std::move(*region), 0, transfer.size};
}

Status DeviceBlocks::load(const BlockTransfer& transfer) {
  if (Status whole = checkBlockSize(transfer); !whole) return whole;
  if (transfer.size == 0) return {};
  auto slice = sliceOf(transfer);
  if (!slice) return slice.error();
  const FilePiece piece{transfer.path, transfer.offset, std::move(*slice)};
  const auto moved = files_->read({&piece, 1});
  return moved ? Status() : moved.error();
}

Status DeviceBlocks::dump(const BlockTransfer& transfer) {
  if (Status whole = checkBlockSize(transfer); !whole) return whole;
  if (transfer.size == 0) return {};
  auto slice = sliceOf(transfer);
  if (!slice) return slice.error();
  const FilePiece piece{transfer.path, transfer.offset, std::move(*slice)};
  const auto moved = files_->write({&piece, 1});
  return moved ? Status() : moved.error();
}

}  // namespace hearth
