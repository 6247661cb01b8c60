#include "verbs/registered_pool.h"

#include <algorithm>
#include <utility>

namespace hearth {

Result<std::shared_ptr<RegisteredPool>> RegisteredPool::create(
    const std::shared_ptr<RdmaDevice>& device, std::size_t count, std::size_t bytes) {
  auto memory = MemoryRegion::allocate(count * bytes);
  if (!memory.ok()) return memory.error();
  const auto known = (*memory)->registrationWith(device);
  if (!known.ok()) return known.error();
  auto pool = std::make_shared<RegisteredPool>();
  pool->region_ = std::move(*memory);
  pool->bufferBytes_ = bytes;
  for (std::size_t at = count; at != 0; --at) pool->free_.push_back(at - 1);
  return pool;
}

MemorySlice RegisteredPool::take(std::uint64_t bytes, std::function<void()> returned) {
  const std::size_t index = free_.back();
  free_.pop_back();
  auto giveBack = [pool = shared_from_this(), index, returned = std::move(returned)](const void*) {
    pool->free_.push_back(index);
    if (returned) returned();
  };
  return {region_, index * bufferBytes_, bytes,
          std::shared_ptr<const void>(region_.get(), std::move(giveBack))};
}

MemorySlice RegisteredPool::copyOf(std::span<const std::byte> bytes) {
  MemorySlice slice = take(bytes.size());
  std::ranges::copy(bytes, slice.bytes().begin());
  return slice;
}

MemorySlice RegisteredPool::copyOf(const MemoryVector& memory) {
  MemorySlice slice = take(memory.size());
  auto into = slice.bytes().begin();
  for (const MemorySlice& piece : memory.slices())
    into = std::ranges::copy(piece.bytes(), into).out;
  return slice;
}

}  // namespace hearth
