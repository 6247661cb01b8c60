// Fields that may follow the fixed part of a message, so that later releases can say more to
// earlier ones: each is its tag (u16), its length (u16) and its bytes, in ascending order of tags
// (without kMustUnderstand). A reader passes over tags that it does not know, unless
// kMustUnderstand is set in the tag: then the message makes no sense without the field. What a
// field has beyond the bytes that a reader knows of it is from a later release, too, and is passed
// over. Pure: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/byte_codec.h"

namespace hearth {

// Part of the tag of a field without which the message would be misunderstood.
inline constexpr std::uint16_t kMustUnderstand = 0x8000;

// `value` has at most 65535 bytes. Fields are written in ascending order of tags.
inline void putField(ByteWriter& out, std::uint16_t tag, std::span<const std::byte> value) {
  out.u16(tag);
  out.u16(static_cast<std::uint16_t>(value.size()));
  out.bytes(value);
}

// The fields that `in` has left, one after the other. `in` must remain live while this is in use.
class OptionalFields {
 public:
  struct Field {
    std::uint16_t tag = 0;
    ByteReader value;
    [[nodiscard]] bool mustUnderstand() const { return (tag & kMustUnderstand) != 0; }
  };

  // `in` must remain live while this object is used.
  explicit OptionalFields(ByteReader& in) : in_(in) {}

  // Nothing behind the last one, or when the rest is malformed: then malformed() says so.
  [[nodiscard]] std::optional<Field> next() {
    if (malformed_ || in_.left() == 0) return std::nullopt;
    const std::uint16_t tag = in_.u16();
    const std::uint16_t length = in_.u16();
    const std::span<const std::byte> value = in_.raw(length);
    const std::int32_t number = tag & ~kMustUnderstand;
    malformed_ = !in_.ok() || number <= last_;
    if (malformed_) return std::nullopt;
    last_ = number;
    return Field{tag, ByteReader(value)};
  }
  // A field was cut off, or came twice or out of order.
  [[nodiscard]] bool malformed() const { return malformed_; }

 private:
  ByteReader& in_;
  std::int32_t last_ = -1;
  bool malformed_ = false;
};

}  // namespace hearth
