#include "loader/header_scanner.h"

#include <charconv>

namespace hearth {
namespace {

void appendUtf8(std::string& into, std::uint32_t point) {
  const auto add = [&into](std::uint32_t byte) { into.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6);
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

// Levels of arrays and objects that a value of a tensor's unknown member may have.
constexpr unsigned kMaxLevels = 125;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void HeaderScanner::skipSpace() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
}

Error HeaderScanner::corrupt(std::string_view reason) const {
  return {ErrorCode::kCorrupt, "header, byte " + std::to_string(at_) + ": " + std::string(reason)};
}

bool HeaderScanner::accept(char token) {
  skipSpace();
  if (at_ >= text_.size() || text_[at_] != token) return false;
  ++at_;
  return true;
}

Status HeaderScanner::expect(char token) {
  if (accept(token)) return {};
  return corrupt(std::string("'") + token + "' is missing");
}

Result<bool> HeaderScanner::another(char close) {
  if (accept(',')) return true;
  if (const Status closed = expect(close); !closed) return closed.error();
  return false;
}

Result<std::string> HeaderScanner::string() {
  if (const Status quote = expect('"'); !quote) return quote.error();
  std::string decoded;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return decoded;
    }
    if (c == '\\') {
      ++at_;
      if (const Status escaped = escape(decoded); !escaped) return escaped.error();
      continue;
    }
    const std::size_t bytes = sequenceBytes();
    if (bytes == 0) return corrupt("a string is not UTF-8 or has a control character");
    decoded.append(text_, at_, bytes);
    at_ += bytes;
  }
  return corrupt("a string does not end");
}

Status HeaderScanner::escape(std::string& into) {
  if (at_ >= text_.size()) return corrupt("a string does not end");
  const char c = text_[at_++];
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (const std::size_t known = kNames.find(c); known != kNames.npos) {
    into.push_back(kMeanings[known]);
    return {};
  }
  if (c != 'u') return corrupt("an escape is unknown");
  Result<std::uint32_t> unit = hexUnit();
  if (!unit) return unit.error();
  std::uint32_t point = *unit;
  if (point >= 0xD800 && point < 0xDC00) {
    if (text_.substr(at_, 2) != "\\u") return corrupt("half a surrogate pair");
    at_ += 2;
    unit = hexUnit();
    if (!unit) return unit.error();
    if (*unit < 0xDC00 || *unit > 0xDFFF) return corrupt("half a surrogate pair");
    point = 0x10000 + ((point - 0xD800) << 10) + (*unit - 0xDC00);
  } else if (point >= 0xDC00 && point <= 0xDFFF) {
    return corrupt("half a surrogate pair");
  }
  appendUtf8(into, point);
  return {};
}

Result<std::uint32_t> HeaderScanner::hexUnit() {
  const std::string_view digits = text_.substr(at_, 4);
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + 4) return corrupt("an escape is not \\uXXXX");
  at_ += 4;
  return value;
}

std::size_t HeaderScanner::sequenceBytes() const {
  const auto byte = [this](std::size_t i) -> unsigned {
    return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0;
  };
  const auto continues = [&byte](std::size_t i, unsigned least = 0x80, unsigned most = 0xBF) {
    return byte(i) >= least && byte(i) <= most;
  };
  const unsigned first = byte(0);
  if (first >= 0x20 && first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    // No overlong forms, no surrogates.
    const unsigned least = first == 0xE0 ? 0xA0 : 0x80, most = first == 0xED ? 0x9F : 0xBF;
    return continues(1, least, most) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned least = first == 0xF0 ? 0x90 : 0x80, most = first == 0xF4 ? 0x8F : 0xBF;
    return continues(1, least, most) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

Result<std::uint64_t> HeaderScanner::integer() {
  skipSpace();
  const char* const begin = text_.data() + at_;
  const char* const limit = text_.data() + text_.size();
  if (begin == limit || !isDigit(*begin)) return corrupt("an unsigned integer is missing");
  if (*begin == '0' && begin + 1 != limit && isDigit(begin[1])) return corrupt("a leading zero");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(begin, limit, value);
  if (error != std::errc()) return corrupt("an integer is above 2^64 - 1");
  if (end != limit && (*end == '.' || *end == 'e' || *end == 'E')) {
    return corrupt("a number is not an integer");
  }
  at_ += static_cast<std::size_t>(end - begin);
  return value;
}

Result<std::vector<std::uint64_t>> HeaderScanner::integers() {
  if (const Status open = expect('['); !open) return open.error();
  std::vector<std::uint64_t> values;
  if (accept(']')) return values;
  while (true) {
    const Result<std::uint64_t> value = integer();
    if (!value) return value.error();
    values.push_back(*value);
    const Result<bool> more = another(']');
    if (!more) return more.error();
    if (!*more) return values;
  }
}

bool HeaderScanner::acceptWord(std::string_view word) {
  skipSpace();
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

bool HeaderScanner::acceptNull() { return acceptWord("null"); }

Status HeaderScanner::skipValue() { return skipValue(kMaxLevels); }

Status HeaderScanner::skipValue(unsigned levels) {
  skipSpace();
  const char next = at_ < text_.size() ? text_[at_] : '\0';
  if (next == '{' || next == '[') {
    if (levels == 0) return corrupt("values are nested too deeply");
    return skipNested(next == '{' ? '}' : ']', levels - 1);
  }
  if (next == '"') {
    const Result<std::string> text = string();
    return text ? Status{} : text.error();
  }
  if (acceptWord("null") || acceptWord("true") || acceptWord("false")) return {};
  return skipNumber();
}

Status HeaderScanner::skipNested(char close, unsigned levels) {
  ++at_;
  if (accept(close)) return {};
  while (true) {
    if (close == '}') {
      if (const Result<std::string> name = string(); !name) return name.error();
      if (Status colon = expect(':'); !colon) return colon;
    }
    if (Status value = skipValue(levels); !value) return value;
    const Result<bool> more = another(close);
    if (!more) return more.error();
    if (!*more) return {};
  }
}

// The grammar of RFC 8259, section 6.
Status HeaderScanner::skipNumber() {
  const auto skip = [this](std::string_view any) {
    if (at_ >= text_.size() || any.find(text_[at_]) == any.npos) return false;
    ++at_;
    return true;
  };
  const auto skipDigits = [&] {
    const std::size_t first = at_;
    while (at_ < text_.size() && isDigit(text_[at_])) ++at_;
    return at_ > first;
  };
  static_cast<void>(skip("-"));
  if (!skip("0") && !skipDigits()) return corrupt("a value is missing");
  if (skip(".") && !skipDigits()) return corrupt("a number ends too early");
  if (skip("eE")) {
    static_cast<void>(skip("+-"));
    if (!skipDigits()) return corrupt("a number ends too early");
  }
  return {};
}

Status HeaderScanner::end() {
  skipSpace();
  if (at_ == text_.size()) return {};
  return corrupt("bytes follow the header's object");
}

}  // namespace hearth
