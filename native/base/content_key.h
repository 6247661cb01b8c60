// A content key names immutable bytes: a SHA-256 chosen by whoever lists an origin (see
// docs/architecture.md). Equal bytes in two revisions have one key and are cached once.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

struct ContentKey {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const ContentKey&) const = default;

  // 64 lower-case hexadecimal digits.
  [[nodiscard]] std::string hex() const;
  // Nothing unless `text` is 64 hexadecimal digits.
  [[nodiscard]] static std::optional<ContentKey> parse(std::string_view text);

  // The first eight bytes, little-endian: uniformly distributed, stable for ever. Placement (shard,
  // rendezvous) uses this and never std::hash.
  [[nodiscard]] std::uint64_t prefix() const {
    std::uint64_t value = 0;
    for (int i = 7; i >= 0; --i) value = (value << 8) | bytes[static_cast<std::size_t>(i)];
    return value;
  }
};

// 64 lower-case hexadecimal digits of a SHA-256.
[[nodiscard]] inline std::string hexOf(const std::array<std::uint8_t, 32>& digest) {
  return ContentKey{digest}.hex();
}

struct ContentKeyHash {
  std::size_t operator()(const ContentKey& key) const {
    return static_cast<std::size_t>(key.prefix());
  }
};

}  // namespace hearth
