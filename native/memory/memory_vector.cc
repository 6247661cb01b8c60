#include "memory/memory_vector.h"

#include <algorithm>
#include <cassert>
#include <cstring>

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
  return MemoryCursor(*this, offset).part(size);
}

std::span<std::byte> MemoryVector::bytesAt(std::uint64_t offset, std::size_t most) const {
  return MemoryCursor(*this, offset).next(most);
}

void MemoryCursor::skip(std::uint64_t bytes) {
  offset_ += bytes;
  while (!slices_.empty() && offset_ >= slices_.front().size) {
    offset_ -= slices_.front().size;
    slices_ = slices_.subspan(1);
  }
}

MemoryVector MemoryCursor::part(std::uint64_t size) {
  std::vector<MemorySlice> taken;
  while (size != 0) {
    MemorySlice& slice = taken.emplace_back(slices_.front());
    slice.offset += offset_;
    slice.size = std::min(slice.size - offset_, size);
    size -= slice.size;
    skip(slice.size);
  }
  return MemoryVector(std::move(taken));
}

std::span<std::byte> MemoryCursor::next(std::size_t most) {
  if (slices_.empty()) return {};
  const std::span<std::byte> rest =
      slices_.front().bytes().subspan(static_cast<std::size_t>(offset_));
  const std::span<std::byte> piece = rest.first(std::min(rest.size(), most));
  skip(piece.size());
  return piece;
}

void copyInto(const MemoryVector& memory, std::uint64_t offset, std::span<const std::byte> bytes) {
  forEachPiece(memory, offset, bytes.size(), [&bytes](std::span<std::byte> piece) {
    std::memcpy(piece.data(), bytes.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  });
}

}  // namespace hearth
