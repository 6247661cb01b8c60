// Names and sentences in frames: which may stand there, and how they are written. For frame.cc.
// Pure: any thread.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/byte_codec.h"
#include "wire/frame.h"

namespace hearth {

// The fault of the decoded text; null: none.
using DecodeFault = const char*;

// Of clusters, nodes and incarnations.
[[nodiscard]] inline bool usableName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char character) {
           return static_cast<unsigned char>(character) >= 0x20 && character != 0x7f;
         });
}

// The sentence is shown to people: what could disturb a terminal or a log line is replaced.
[[nodiscard]] inline std::string printable(std::string sentence) {
  for (char& character : sentence) {
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) character = ' ';
  }
  return sentence;
}

inline void putSentence(ByteWriter& out, ErrorCode code, std::string_view sentence) {
  out.number(static_cast<std::uint16_t>(code));
  out.text(printable(std::string(sentence.substr(0, kMaxSentenceBytes))));
}

[[nodiscard]] inline DecodeFault getSentence(ByteReader& in, bool mayBeOk, ErrorCode& code,
                                             std::string& sentence) {
  const auto number = in.number<std::uint16_t>();
  sentence = in.text();
  if (number == 0 && !mayBeOk) return "success where an error must be";
  if (sentence.size() > kMaxSentenceBytes) return "a sentence that is too long";
  if (printable(sentence) != sentence) return "control characters in its sentence";
  if (number == 0 && !sentence.empty()) return "a sentence beside success";
  code = isErrorCode(number) ? static_cast<ErrorCode>(number) : ErrorCode::kInternal;
  return nullptr;
}

}  // namespace hearth
