// Writing and reading the fields of messages, which a function visitFields(io, value) names once
// for both. Little-endian; texts have their length in 16 bits, lists and blobs theirs in 32,
// optional values and truths a byte 0 or 1 before them. Pure: any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/byte_codec.h"
#include "base/optional_fields.h"
#include "namespace/ids.h"

namespace hearth {

// The unsigned number as which a field is written.
template <class T>
struct WireNumber {
  using type = std::make_unsigned_t<T>;
};
template <class T>
requires std::is_enum_v<T>
struct WireNumber<T> {
  using type = std::make_unsigned_t<std::underlying_type_t<T>>;
};

class FieldWriter {
 public:
  explicit FieldWriter(ByteWriter& out) : out_(out) {}

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.u8(value ? 1 : 0);
    } else {
      out_.number(static_cast<typename WireNumber<T>::type>(value));
    }
  }
  void operator()(const std::string& value) { out_.text(value); }
  void operator()(const tree::WideId& value) { out_.bytes(std::as_bytes(std::span(value))); }
  template <class T>
  void part(T& value) {
    if constexpr (requires { (*this)(value); }) {
      (*this)(value);
    } else {
      visitFields(*this, value);
    }
  }
  template <class T>
  void choice(T value, T) {
    (*this)(value);
  }
  template <class T>
  void maybe(std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) part(*value);
  }
  void blob(std::vector<std::byte>& bytes, std::size_t) {
    out_.u32(static_cast<std::uint32_t>(bytes.size()));
    out_.bytes(bytes);
  }
  template <class T>
  void list(std::vector<T>& values, std::size_t) {
    out_.u32(static_cast<std::uint32_t>(values.size()));
    for (T& value : values) part(value);
  }

 private:
  ByteWriter& out_;
};

// After a field that cannot be, the rest has no meaning: ok() says so.
class FieldReader {
 public:
  explicit FieldReader(ByteReader& in) : in_(in) {}

  template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::uint8_t byte = in_.u8();
      ok_ = ok_ && byte <= 1;
      value = byte == 1;
    } else {
      value = static_cast<T>(in_.number<typename WireNumber<T>::type>());
    }
  }
  void operator()(std::string& value) { value = in_.text(); }
  void operator()(tree::WideId& value) { value = in_.fixed<16>(); }
  template <class T>
  void part(T& value) {
    if constexpr (requires { (*this)(value); }) {
      (*this)(value);
    } else {
      visitFields(*this, value);
    }
  }
  template <class T>
  void choice(T& value, T last) {
    (*this)(value);
    ok_ = ok_ && value <= last;
  }
  template <class T>
  void maybe(std::optional<T>& value) {
    bool there = false;
    (*this)(there);
    if (there) part(value.emplace());
  }
  void blob(std::vector<std::byte>& bytes, std::size_t most) {
    const std::uint32_t size = in_.u32();
    ok_ = ok_ && size <= most;
    if (!ok()) return;
    const auto from = in_.raw(size);
    bytes.assign(from.begin(), from.end());
  }
  template <class T>
  void list(std::vector<T>& values, std::size_t most) {
    const std::uint32_t count = in_.u32();
    ok_ = ok_ && count <= most;
    for (std::uint32_t i = 0; i < count && ok(); ++i) part(values.emplace_back());
  }
  [[nodiscard]] bool ok() const { return ok_ && in_.ok(); }

 private:
  ByteReader& in_;
  bool ok_ = true;
};

// The fields were there, and the rest need not be understood.
[[nodiscard]] inline bool finishBody(ByteReader& in, const FieldReader& read) {
  if (!read.ok()) return false;
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return false;
  }
  return !fields.malformed();
}

// All fields of a body, as visitFields names them.
template <class Body>
[[nodiscard]] std::vector<std::byte> encodeFields(Body body) {
  ByteWriter out;
  FieldWriter write(out);
  write.part(body);
  return out.take();
}
// None: malformed, or of a later release and must be understood.
template <class Body>
[[nodiscard]] std::optional<Body> decodeFields(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  FieldReader read(in);
  Body body;
  read.part(body);
  if (!finishBody(in, read)) return std::nullopt;
  return body;
}

// The alternative of a variant with that index; false: there is none.
template <class Variant, std::size_t... indices>
bool emplaceAt(std::size_t index, Variant& into, std::index_sequence<indices...>) {
  return ((index == indices && (into.template emplace<indices>(), true)) || ...);
}

// A variant: the index of its alternative (u8), which is part of the protocol, and its fields.
template <class Variant>
void writeOneOf(ByteWriter& out, FieldWriter& write, Variant& value) {
  out.u8(static_cast<std::uint8_t>(value.index()));
  std::visit([&](auto& fields) { visitFields(write, fields); }, value);
}
template <class Variant>
[[nodiscard]] bool readOneOf(ByteReader& in, FieldReader& read, Variant& value) {
  constexpr auto kAll = std::make_index_sequence<std::variant_size_v<Variant>>();
  if (!emplaceAt(in.u8(), value, kAll)) return false;
  std::visit([&](auto& fields) { visitFields(read, fields); }, value);
  return read.ok();
}

}  // namespace hearth
