// Where bytes go to or come from: parts of regions, one after the other (scatter and gather).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/memory_region.h"

namespace hearth {

// A part of a region.
struct MemorySlice {
  std::shared_ptr<MemoryRegion> region;
  std::uint64_t offset = 0, size = 0;
  // While it lives the part is used for nothing else: it lives for as long as anybody may write
  // into it, which may be longer than the call that it was given to. Null: the region's life is
  // enough.
  std::shared_ptr<const void> owner = nullptr;

  // Memory that is no region yet, as one of its own.
  [[nodiscard]] static MemorySlice of(std::span<std::byte> bytes,
                                      std::shared_ptr<const void> owner = nullptr) {
    return {MemoryRegion::host(bytes, std::move(owner)), 0, bytes.size()};
  }
  // Only when the region is host memory.
  [[nodiscard]] std::span<std::byte> bytes() const {
    return region->bytes().subspan(static_cast<std::size_t>(offset),
                                   static_cast<std::size_t>(size));
  }
};

class MemoryVector {
 public:
  MemoryVector() = default;
  MemoryVector(MemorySlice slice);  // NOLINT(google-explicit-constructor)
  // Empty slices are left out.
  explicit MemoryVector(std::vector<MemorySlice> slices);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::span<const MemorySlice> slices() const { return slices_; }
  // Every slice has a region and lies inside it. To be asked of what others have made: all else
  // here counts on it.
  [[nodiscard]] bool isSound() const;
  // Processors reach all of it.
  [[nodiscard]] bool isHost() const;

  // [offset, offset + size) of it, with the same owners; inside it.
  [[nodiscard]] MemoryVector part(std::uint64_t offset, std::uint64_t size) const;
  // The bytes from `offset` on that lie together, at most `most`; only when isHost(). Empty at the
  // end.
  [[nodiscard]] std::span<std::byte> bytesAt(std::uint64_t offset, std::size_t most) const;

 private:
  std::vector<MemorySlice> slices_;
  std::uint64_t size_ = 0;
};

// Calls `take(std::span<std::byte>)` with the pieces of [offset, offset + size) that lie together,
// in order; only when isHost().
template <class Take>
void forEachPiece(const MemoryVector& memory, std::uint64_t offset, std::size_t size, Take take) {
  while (size != 0) {
    const std::span<std::byte> piece = memory.bytesAt(offset, size);
    take(piece);
    offset += piece.size();
    size -= piece.size();
  }
}

}  // namespace hearth
