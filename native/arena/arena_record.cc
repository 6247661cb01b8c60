#include "arena/arena_record.h"

#include <cstring>
#include <span>

#include "base/crc32c.h"

namespace hearth {
namespace {

template <class T>
std::uint32_t add(const T& field, std::uint32_t crc) {
  return crc32c(std::as_bytes(std::span(&field, 1)), crc);
}

}  // namespace

std::uint32_t checksumOf(const ArenaRecord& record) {
  const std::uint64_t generation = record.generation.load(std::memory_order_relaxed);
  std::uint32_t crc = add(generation, 0);
  crc = add(record.key, crc);
  crc = add(record.chunk, crc);
  crc = add(record.bytes, crc);
  return add(record.crcs, crc);
}

std::uint32_t checksumOf(const ArenaIndexHeader& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(ArenaIndexHeader, crc)));
}

}  // namespace hearth
