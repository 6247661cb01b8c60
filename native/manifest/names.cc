#include "manifest/names.h"

#include <cstdint>

#include "manifest/format.h"

namespace hearth {
namespace {

using manifest_format::kMaxNameBytes;
using manifest_format::kMaxPathBytes;
using manifest_format::kMaxValidatorBytes;

// Bytes of the well-formed sequence at the start of `text`, 0 when there is none.
std::size_t sequenceLength(std::string_view text) {
  const auto at = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  std::uint8_t low = 0x80;  // bounds of the second byte; they exclude overlong forms and surrogates
  std::uint8_t high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (text.size() < length || at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::optional<std::string> unusableName(std::string_view name) {
  if (name.empty()) return "a part of the path is empty";
  if (name == "." || name == "..") return "a part of the path is '" + std::string(name) + "'";
  if (name.size() > kMaxNameBytes) return "a part of the path is longer than 255 bytes";
  if (name.find('\0') != name.npos) return "it contains a NUL byte";
  if (name.find('/') != name.npos) return "a part of the path contains '/'";
  if (!isUtf8(name)) return "it is not valid UTF-8";
  return std::nullopt;
}

std::optional<std::string> unusablePath(std::string_view path) {
  if (path.empty()) return "the path is empty";
  if (path.front() == '/') return "the path is absolute";
  if (path.size() > kMaxPathBytes) return "the path is longer than 4095 bytes";
  for (std::string_view rest = path;;) {
    const std::size_t slash = rest.find('/');
    if (auto reason = unusableName(rest.substr(0, slash))) return reason;
    if (slash == rest.npos) return std::nullopt;
    rest.remove_prefix(slash + 1);
  }
}

std::optional<std::string> unusableTarget(std::string_view target) {
  if (target.empty()) return "the link's target is empty";
  if (target.size() > kMaxPathBytes) return "the link's target is longer than 4095 bytes";
  if (target.find('\0') != target.npos) return "the link's target contains a NUL byte";
  if (!isUtf8(target)) return "the link's target is not valid UTF-8";
  return std::nullopt;
}

std::optional<std::string> unusableValidator(std::string_view validator) {
  if (validator.size() > kMaxValidatorBytes) return "its validator is longer than 4095 bytes";
  for (const char c : validator) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f) return "its validator contains a control character";
  }
  return std::nullopt;
}

std::string escaped(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    if (out.size() >= kLongest) return out + "...";
    const std::size_t length = sequenceLength(text);
    const auto byte = static_cast<std::uint8_t>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7f || byte == '\\') {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace hearth
