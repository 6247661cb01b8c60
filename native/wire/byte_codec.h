// Little-endian fields into and out of byte strings, for fixed formats. Pure: any thread.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& into) : bytes_(into) {}

  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>((value >> (8 * i)) & 0xff));
    }
  }
  void raw(std::span<const std::byte> data) {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  // Its length in 16 bits (at most 65535), then its bytes.
  void text(std::string_view value) {
    number(static_cast<std::uint16_t>(value.size()));
    raw(std::as_bytes(std::span(value)));
  }

 private:
  std::vector<std::byte>& bytes_;
};

// Reads past the end give zeros and make complete() false; callers check once, before they use
// anything.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    const std::span<const std::byte> data = raw(sizeof(T));
    T value = 0;
    for (std::size_t i = data.size(); i > 0; --i) {
      value = static_cast<T>((value << (sizeof(T) > 1 ? 8 : 0)) | static_cast<T>(data[i - 1]));
    }
    return value;
  }
  // Empty when fewer than `size` bytes are left.
  [[nodiscard]] std::span<const std::byte> raw(std::size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const std::span<const std::byte> data = rest_.first(size);
    rest_ = rest_.subspan(size);
    return data;
  }
  template <std::size_t size>
  [[nodiscard]] std::array<std::uint8_t, size> fixed() {
    std::array<std::uint8_t, size> value{};
    const std::span<const std::byte> data = raw(size);
    if (!data.empty()) std::memcpy(value.data(), data.data(), size);
    return value;
  }
  [[nodiscard]] std::string text() {
    const std::span<const std::byte> data = raw(number<std::uint16_t>());
    return std::string(reinterpret_cast<const char*>(data.data()), data.size());
  }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  // Everything asked for was there, and nothing is left.
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace hearth
