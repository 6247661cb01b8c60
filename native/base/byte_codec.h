// Writing and reading fixed little-endian layouts. The reader never reads past its end: after the
// first short read it gives zeros and nothing more, so that a decoder checks once, at the end.
// Pure: any thread.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

class ByteWriter {
 public:
  ByteWriter() : out_(&own_) {}
  // Appends to `into`, which outlives the writer.
  explicit ByteWriter(std::vector<std::byte>& into) : out_(&into) {}
  ByteWriter(ByteWriter&& other) noexcept
      : own_(std::move(other.own_)), out_(other.out_ == &other.own_ ? &own_ : other.out_) {}
  ByteWriter& operator=(ByteWriter&&) = delete;

  // As many bytes as its type has.
  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_->push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  void u8(std::uint8_t value) { number(value); }
  void u16(std::uint16_t value) { number(value); }
  void u32(std::uint32_t value) { number(value); }
  void u64(std::uint64_t value) { number(value); }
  void bytes(std::span<const std::byte> data) {
    out_->insert(out_->end(), data.begin(), data.end());
  }
  // Length (16 bits; longer texts are cut) and bytes.
  void text(std::string_view value) {
    value = value.substr(0, 0xffff);
    u16(static_cast<std::uint16_t>(value.size()));
    bytes(std::as_bytes(std::span(value)));
  }
  [[nodiscard]] std::size_t size() const { return out_->size(); }
  // Takes the bytes of a writer that owns them.
  [[nodiscard]] std::vector<std::byte> take() { return std::move(own_); }

 private:
  std::vector<std::byte> own_;
  std::vector<std::byte>* out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    std::uint64_t value = 0;
    const auto from = raw(sizeof(T));
    for (std::size_t i = from.size(); i-- > 0;)
      value = (value << 8) | static_cast<std::uint64_t>(from[i]);
    return static_cast<T>(value);
  }
  [[nodiscard]] std::uint8_t u8() { return number<std::uint8_t>(); }
  [[nodiscard]] std::uint16_t u16() { return number<std::uint16_t>(); }
  [[nodiscard]] std::uint32_t u32() { return number<std::uint32_t>(); }
  [[nodiscard]] std::uint64_t u64() { return number<std::uint64_t>(); }
  // A view of the next `size` bytes; empty when fewer are left.
  [[nodiscard]] std::span<const std::byte> raw(std::size_t size) {
    if (size > data_.size()) {
      ok_ = false;
      data_ = {};
      return {};
    }
    const auto part = data_.first(size);
    data_ = data_.subspan(size);
    return part;
  }
  void bytes(std::span<std::byte> into) {
    const auto from = raw(into.size());
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
  }
  template <std::size_t size>
  [[nodiscard]] std::array<std::uint8_t, size> fixed() {
    std::array<std::uint8_t, size> value{};
    bytes(std::as_writable_bytes(std::span(value)));
    return value;
  }
  [[nodiscard]] std::string text() {
    const auto from = raw(u16());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t left() const { return data_.size(); }
  // Everything asked for was there, and nothing is left.
  [[nodiscard]] bool finished() const { return ok_ && data_.empty(); }

 private:
  std::span<const std::byte> data_;
  bool ok_ = true;
};

}  // namespace hearth
