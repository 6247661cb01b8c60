#include "base/json_string.h"

namespace hearth {
namespace {

// Length of the well-formed UTF-8 sequence at `text[at]`, 0 when there is none (RFC 3629).
std::size_t sequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const auto continues = [&](std::size_t index) { return (byte(index) & 0xC0U) == 0x80U; };
  if (first >= 0xC2 && first <= 0xDF) return continues(at + 1) ? 2 : 0;
  const unsigned second = byte(at + 1);
  if (first >= 0xE0 && first <= 0xEF) {
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;  // surrogates
    return continues(at + 1) && continues(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string jsonString(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string json = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = sequenceLength(text, at);
    if (byte == '"' || byte == '\\') {
      json += '\\';
      json += text[at];
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kDigits[byte >> 4];
      json += kDigits[byte & 15];
    } else if (length == 0) {
      json += "\xEF\xBF\xBD";
    } else {
      json += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return json + '"';
}

}  // namespace hearth
