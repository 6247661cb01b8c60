#include "loader/loaded_check.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace hearth {
namespace {

constexpr std::size_t kPartBytes = std::size_t{4} << 20;

// Gives `size` bytes of the loaded memory from `inMemory` on; valid until the next call.
using LoadedPart =
    std::function<Result<std::span<const std::byte>>(std::uint64_t inMemory, std::size_t size)>;

// Equal: the bytes of the file are those that were loaded.
Result<bool> equals(const FilePlan& plan, const LoadedPart& loadedPart) {
  std::vector<std::byte> part;
  const auto isEqual = [&](std::uint64_t offset, std::uint64_t inMemory,
                           std::uint64_t size) -> Result<bool> {
    for (std::uint64_t done = 0; done < size; done += part.size()) {
      part.resize(std::min<std::uint64_t>(kPartBytes, size - done));
      if (Status again = plan.file->readThrough(part.data(), offset + done, part.size()); !again) {
        return again.error();
      }
      const auto loaded = loadedPart(inMemory + done, part.size());
      if (!loaded) return loaded.error();
      if (std::memcmp(part.data(), loaded->data(), part.size()) != 0) return false;
    }
    return true;
  };
  for (const PlannedRead& read : plan.reads) {
    const Result<bool> same = isEqual(read.offset, read.inMemory, read.size);
    if (!same || !*same) return same;
  }
  for (const RowRead& rows : plan.rows) {
    for (std::uint64_t row = 0; row < rows.rows; ++row) {
      const Result<bool> same = isEqual(rows.offset + row * rows.stride,
                                        rows.inMemory + row * rows.rowBytes, rows.rowBytes);
      if (!same || !*same) return same;
    }
  }
  return true;
}

Result<bool> equalsOnHost(const FilePlan& plan, std::uint64_t address) {
  const auto* const memory = reinterpret_cast<const std::byte*>(address);
  return equals(plan, [memory](std::uint64_t inMemory, std::size_t size) {
    return Result<std::span<const std::byte>>(std::span(memory + inMemory, size));
  });
}

Result<bool> equalsOnDevice(const FilePlan& plan, std::uint64_t address, Device& device) {
  const auto pinned = device.pin(kPartBytes);
  if (!pinned) return pinned.error();
  const auto stream = device.stream();
  if (!stream) return stream.error();
  return equals(
      plan, [&](std::uint64_t inMemory, std::size_t size) -> Result<std::span<const std::byte>> {
        const std::span<std::byte> part = (*pinned)->bytes().first(size);
        Status copied = (*stream)->copyOut(part, address + inMemory);
        if (copied.ok()) copied = (*stream)->mark(0);
        if (copied.ok()) copied = (*stream)->wait(0);
        if (!copied) return copied.error();
        return std::span<const std::byte>(part);
      });
}

}  // namespace

Status checkLoaded(const FilePlan& plan, std::uint64_t address,
                   const std::shared_ptr<Device>& device) {
  return plan.file->checkUnchanged([&] {
    return device ? equalsOnDevice(plan, address, *device) : equalsOnHost(plan, address);
  });
}

}  // namespace hearth
