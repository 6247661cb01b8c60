// Bytes that are known to both sides of a test. Pure: any thread.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/content_key.h"
#include "base/crc32c.h"
#include "wire/frame.h"

namespace hearth::testing_rails {

// The bytes of a key's file at that place, and their checksums. `offset` is on a block, and
// `offset` + `size` at most kPatternBytes. Sanitizers make bytes dear, so whole blocks are computed
// once.
inline constexpr std::size_t kPatternBytes = std::size_t{1} << 20;
struct Pattern {
  std::vector<std::byte> bytes = [] {
    std::vector<std::byte> all(kPatternBytes + 8 * kBlockBytes);
    std::mt19937_64 random(1);
    for (std::byte& each : all) each = static_cast<std::byte>(random());
    return all;
  }();
  std::vector<std::uint32_t> checksums = crc32cOfBlocks(bytes, kBlockBytes);
  static const Pattern& get() {
    static const Pattern pattern;
    return pattern;
  }
};
inline std::span<const std::byte> bytesOf(const ContentKey& key, std::uint64_t offset,
                                          std::size_t size) {
  return std::span(Pattern::get().bytes).subspan(key.bytes[0] % 8 * kBlockBytes + offset, size);
}
inline std::vector<std::uint32_t> checksumsOf(const ContentKey& key, std::uint64_t offset,
                                              std::size_t size) {
  const auto first = Pattern::get().checksums.begin() +
                     static_cast<std::ptrdiff_t>(key.bytes[0] % 8 + offset / kBlockBytes);
  std::vector<std::uint32_t> checksums(first, first + static_cast<std::ptrdiff_t>(blocksOf(size)));
  const std::size_t tail = size % kBlockBytes;
  if (tail != 0) checksums.back() = crc32c(bytesOf(key, offset + size - tail, tail));
  return checksums;
}
inline bool same(const ContentKey& key, std::uint64_t offset, std::span<const std::byte> bytes) {
  return std::memcmp(bytes.data(), bytesOf(key, offset, bytes.size()).data(), bytes.size()) == 0;
}

}  // namespace hearth::testing_rails
