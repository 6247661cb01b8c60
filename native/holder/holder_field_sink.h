// Puts the fields of a message, or of a nested field, into their places, and remembers malformed
// ones. Pure, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "holder/holder_fields.h"

namespace hearth {

class HolderFieldSink {
 public:
  explicit HolderFieldSink(std::span<const std::byte> body) : reader_(body) {}

  // Calls `take` for each field, which answers false for one that it does not know.
  template <class Take>
  void each(Take take) {
    while (const auto field = reader_.next()) {
      if (!take(*field) && field->required()) required_ = field->tag;
    }
  }
  template <class T>
  bool number(const HolderFieldValue& field, T& into) {
    const auto value = field.number();
    good_ = good_ && value && *value <= static_cast<std::uint64_t>(static_cast<T>(-1));
    if (value) into = static_cast<T>(*value);
    return true;
  }
  bool flag(const HolderFieldValue& field, bool& into) {
    const auto value = field.number();
    good_ = good_ && value;
    into = value && *value != 0;
    return true;
  }
  bool text(const HolderFieldValue& field, std::string& into, std::size_t most) {
    good_ = good_ && field.value.size() <= most;
    if (good_) into = field.text();
    return true;
  }
  // For what goes to system calls as a C string.
  bool plain(const HolderFieldValue& field, std::string& into, std::size_t most) {
    text(field, into, most);
    good_ = good_ && into.find('\0') == std::string::npos;
    return true;
  }
  void refuse() { good_ = false; }
  [[nodiscard]] bool good() const { return good_ && reader_.whole(); }
  // Tag of a field that had to be known; 0: none.
  [[nodiscard]] std::uint16_t required() const { return required_; }

 private:
  HolderFieldReader reader_;
  bool good_ = true;
  std::uint16_t required_ = 0;
};

}  // namespace hearth
