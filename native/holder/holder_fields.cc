#include "holder/holder_fields.h"

#include "base/byte_codec.h"

namespace hearth {

void HolderFieldWriter::put(HolderField field, std::span<const std::byte> value) {
  ByteWriter out(bytes_);
  out.u16(static_cast<std::uint16_t>(field));
  out.u32(static_cast<std::uint32_t>(value.size()));
  out.bytes(value);
}

void HolderFieldWriter::number(HolderField field, std::uint64_t value) {
  if (value == 0) return;
  ByteWriter bytes;
  bytes.u64(value);
  put(field, bytes.take());
}

void HolderFieldWriter::text(HolderField field, std::string_view value) {
  if (!value.empty()) put(field, std::as_bytes(std::span(value)));
}

void HolderFieldWriter::words(HolderField field, std::span<const std::uint64_t> values) {
  ByteWriter bytes;
  for (const std::uint64_t value : values) bytes.u64(value);
  put(field, bytes.take());
}

void HolderFieldWriter::nested(HolderField field, const HolderFieldWriter& fields) {
  put(field, fields.bytes_);
}

void HolderFieldWriter::append(const HolderFieldWriter& fields) {
  bytes_.insert(bytes_.end(), fields.bytes_.begin(), fields.bytes_.end());
}

std::string HolderFieldValue::text() const {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::optional<std::uint64_t> HolderFieldValue::number() const {
  if (value.empty() || value.size() > sizeof(std::uint64_t)) return std::nullopt;
  std::uint64_t number = 0;
  for (std::size_t i = value.size(); i-- > 0;) {
    number = (number << 8) | static_cast<std::uint64_t>(value[i]);
  }
  return number;
}

void HolderFieldValue::words(std::span<std::uint64_t> into) const {
  ByteReader in(value);
  for (std::uint64_t& word : into) word = in.u64();
}

std::optional<HolderFieldValue> HolderFieldReader::next() {
  if (left_.empty() || !whole_) return std::nullopt;
  ByteReader in(left_);
  HolderFieldValue field;
  field.tag = in.u16();
  const std::uint32_t size = in.u32();
  whole_ = in.ok() && size <= in.left();
  if (!whole_) return std::nullopt;
  field.value = in.raw(size);
  left_ = left_.last(in.left());
  return field;
}

}  // namespace hearth
