// Bytes of a format, written down as hexadecimal digits: what a release has sent or stored and
// every later one must read and, within a version, write. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::testing_support {

inline std::string hexOf(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

// `hex` has lower case digits only, two for each byte.
inline std::vector<std::byte> bytesOfHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

// `value` becomes exactly these bytes, and what they are read as becomes them again.
// `encode(value)` gives bytes, `decode(bytes)` an optional or a Result.
template <class Value, class Encode, class Decode>
void expectGolden(std::string_view hex, const Value& value, Encode encode, Decode decode) {
  EXPECT_EQ(hexOf(encode(value)), hex);
  const std::vector<std::byte> bytes = bytesOfHex(hex);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded) << hex;
  EXPECT_EQ(hexOf(encode(*decoded)), hex);
}

}  // namespace hearth::testing_support
