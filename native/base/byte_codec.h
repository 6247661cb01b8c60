// Writing and reading fixed little-endian layouts. The reader never reads past its end: after the
// first short read it gives zeros and ok() is false for ever, so that a decoder checks once, at the
// end.
#pragma once

#include <algorithm>
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
  void u8(std::uint8_t value) { integer(value); }
  void u16(std::uint16_t value) { integer(value); }
  void u32(std::uint32_t value) { integer(value); }
  void u64(std::uint64_t value) { integer(value); }
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  // Length (16 bits; longer texts are cut) and bytes.
  void text(std::string_view value) {
    value = value.substr(0, 0xffff);
    u16(static_cast<std::uint16_t>(value.size()));
    bytes(std::as_bytes(std::span(value)));
  }
  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(out_); }

 private:
  template <class Integer>
  void integer(Integer value) {
    for (std::size_t i = 0; i < sizeof value; ++i) {
      out_.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
    }
  }
  std::vector<std::byte> out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> data) : data_(data) {}

  std::uint8_t u8() { return integer<std::uint8_t>(); }
  std::uint16_t u16() { return integer<std::uint16_t>(); }
  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::uint64_t u64() { return integer<std::uint64_t>(); }
  void bytes(std::span<std::byte> into) {
    const auto from = take(into.size());
    std::copy(from.begin(), from.end(), into.begin());
  }
  [[nodiscard]] std::string text() {
    const auto from = take(u16());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t left() const { return data_.size(); }
  // Everything was there and nothing is left.
  [[nodiscard]] bool finished() const { return ok_ && data_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > data_.size()) {
      ok_ = false;
      data_ = {};
      return {};
    }
    const auto part = data_.first(size);
    data_ = data_.subspan(size);
    return part;
  }
  template <class Integer>
  Integer integer() {
    std::uint64_t value = 0;
    const auto from = take(sizeof(Integer));
    for (std::size_t i = from.size(); i-- > 0;)
      value = (value << 8) | static_cast<std::uint64_t>(from[i]);
    return static_cast<Integer>(value);
  }

  std::span<const std::byte> data_;
  bool ok_ = true;
};

}  // namespace hearth
