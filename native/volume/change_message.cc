#include "volume/change_message.h"

#include <type_traits>
#include <utility>

#include "base/byte_codec.h"
#include "base/optional_fields.h"
#include "volume/change_fields.h"

namespace hearth {
namespace {

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
    if constexpr (std::is_class_v<T>) {
      visitFields(*this, value);
    } else {
      (*this)(value);
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
    if constexpr (std::is_class_v<T>) {
      visitFields(*this, value);
    } else {
      (*this)(value);
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
bool finishBody(ByteReader& in, const FieldReader& read) {
  if (!read.ok()) return false;
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return false;
  }
  return !fields.malformed();
}

template <std::size_t... indices>
bool emplaceChange(std::size_t index, tree::ClientChange& into, std::index_sequence<indices...>) {
  return ((index == indices && (into.emplace<indices>(), true)) || ...);
}

template <class Io>
void visitHead(Io& io, ChangeMessage& it) {
  io(it.volume);
  io(it.incarnation);
  io(it.epoch);
  io(it.number);
  io(it.doneBelow);
}

}  // namespace

std::vector<std::byte> encode(const ChangeMessage& message) {
  ByteWriter out;
  FieldWriter write(out);
  ChangeMessage fields = message;
  visitHead(write, fields);
  out.u8(static_cast<std::uint8_t>(fields.change.index()));
  std::visit([&](auto& change) { visitFields(write, change); }, fields.change);
  return out.take();
}

std::optional<ChangeMessage> decodeChange(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  ChangeMessage message;
  visitHead(read, message);
  constexpr auto kAll = std::make_index_sequence<std::variant_size_v<tree::ClientChange>>();
  if (!emplaceChange(in.u8(), message.change, kAll)) return std::nullopt;
  std::visit([&](auto& change) { visitFields(read, change); }, message.change);
  if (!finishBody(in, read)) return std::nullopt;
  return message;
}

std::vector<std::byte> encode(const ChangeReply& reply) {
  ByteWriter out;
  FieldWriter write(out);
  ChangeReply fields = reply;
  visitFields(write, fields.answer);
  write.maybe(fields.attributes);
  return out.take();
}

std::optional<ChangeReply> decodeReply(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  ChangeReply reply;
  visitFields(read, reply.answer);
  read.maybe(reply.attributes);
  if (!finishBody(in, read) || reply.answer.error < 0) return std::nullopt;
  return reply;
}

}  // namespace hearth
