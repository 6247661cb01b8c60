#include "memory/memory_vector.h"

#include <algorithm>
#include <cassert>

namespace hearth {

MemoryVector::MemoryVector(MemorySlice slice) : size_(slice.size) {
  if (slice.size != 0) slices_.push_back(std::move(slice));
}

MemoryVector::MemoryVector(std::vector<MemorySlice> slices) : slices_(std::move(slices)) {
  std::erase_if(slices_, [](const MemorySlice& slice) { return slice.size == 0; });
  for (const MemorySlice& slice : slices_) size_ += slice.size;
}

bool MemoryVector::isSound() const {
  std::uint64_t left = ~std::uint64_t{0};
  for (const MemorySlice& slice : slices_) {
    if (slice.region == nullptr || slice.size > left) return false;
    const std::uint64_t size = slice.region->size();
    if (slice.offset > size || slice.size > size - slice.offset) return false;
    left -= slice.size;
  }
  return true;
}

bool MemoryVector::isHost() const {
  return std::ranges::all_of(slices_,
                             [](const MemorySlice& slice) { return slice.region->isHost(); });
}

MemoryVector MemoryVector::part(std::uint64_t offset, std::uint64_t size) const {
  assert(offset <= size_ && size <= size_ - offset);
  MemoryVector part;
  part.size_ = size;
  for (const MemorySlice& slice : slices_) {
    if (size == 0) break;
    if (offset >= slice.size) {
      offset -= slice.size;
      continue;
    }
    MemorySlice taken = slice;
    taken.offset += offset;
    taken.size = std::min(slice.size - offset, size);
    size -= taken.size;
    offset = 0;
    part.slices_.push_back(std::move(taken));
  }
  return part;
}

std::span<std::byte> MemoryVector::bytesAt(std::uint64_t offset, std::size_t most) const {
  for (const MemorySlice& slice : slices_) {
    if (offset < slice.size) {
      const std::span<std::byte> rest = slice.bytes().subspan(static_cast<std::size_t>(offset));
      return rest.first(std::min(rest.size(), most));
    }
    offset -= slice.size;
  }
  return {};
}

}  // namespace hearth
