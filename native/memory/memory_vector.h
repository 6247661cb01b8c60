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

// Goes once through a vector, from an offset inside it on: each slice is looked at once, however
// many parts are taken. The vector must remain live and as it is.
class MemoryCursor {
 public:
  explicit MemoryCursor(const MemoryVector& memory, std::uint64_t offset = 0)
      : slices_(memory.slices()) {
    skip(offset);
  }

  // All of these move behind what they are about. At most what is left.
  void skip(std::uint64_t bytes);
  [[nodiscard]] MemoryVector part(std::uint64_t size);
  // The bytes that lie together here, at most `most`; empty at the end. Only when isHost().
  std::span<std::byte> next(std::size_t most);

 private:
  std::span<const MemorySlice> slices_;  // that are left
  std::uint64_t offset_ = 0;             // in the first of them, and less than its size
};

// Calls `take(std::span<std::byte>)` with the pieces of [offset, offset + size) that lie together,
// in order; only when isHost().
template <class Take>
void forEachPiece(const MemoryVector& memory, std::uint64_t offset, std::size_t size, Take take) {
  MemoryCursor cursor(memory, offset);
  while (size != 0) {
    const std::span<std::byte> piece = cursor.next(size);
    take(piece);
    size -= piece.size();
  }
}

// Writes `bytes` to [offset, offset + their number) of `memory`, which is inside it; only when
// isHost().
void copyInto(const MemoryVector& memory, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace hearth
