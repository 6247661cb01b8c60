#include "manifest/glob_compiler.h"

#include <string>

namespace hearth {
namespace {

constexpr std::size_t kMaxPatternBytes = 4096;

}  // namespace

char32_t takeCharacter(std::string_view& text) {
  const auto byte = [&text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  std::size_t length = 1;
  char32_t value = first;
  if (first >= 0xc2 && first <= 0xf4) {
    length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    value = first & (0xff >> (length + 1));
    bool whole = text.size() >= length;
    for (std::size_t i = 1; whole && i < length; ++i) {
      whole = (byte(i) & 0xc0) == 0x80;
      value = value << 6 | (byte(i) & 0x3f);
    }
    if (!whole) length = 1;
  }
  if (length == 1 && first >= 0x80) value = 0x110000 + first;
  text.remove_prefix(length);
  return value;
}

Error GlobCompiler::wrong(std::string_view what) const {
  return {ErrorCode::kInvalidArgument,
          "the pattern cannot be read at byte " + std::to_string(pattern_.size() - rest_.size()) +
              ": " + std::string(what) + "; put a backslash before a character that means itself"};
}

std::uint32_t GlobCompiler::emit(Glob::State state) {
  glob_.states_.push_back(state);
  return here() - 1;
}

bool GlobCompiler::atPartStart() const {
  const std::size_t at = pattern_.size() - rest_.size();
  if (at == 0) return true;
  const char before = pattern_[at - 1];
  if (before == '/') return true;
  return !braces_.empty() && (before == '{' || before == ',');
}

bool GlobCompiler::atPartEnd(std::string_view after) const {
  if (after.empty() || after.front() == '/') return true;
  return !braces_.empty() && (after.front() == ',' || after.front() == '}');
}

Result<Glob> GlobCompiler::compile() {
  if (pattern_.empty()) return wrong("it is empty");
  if (pattern_.size() > kMaxPatternBytes) return wrong("it is longer than 4096 bytes");
  if (pattern_.front() == '/') return wrong("paths in a dataset do not begin with '/'");
  while (!rest_.empty()) {
    const Status status = step();
    if (!status.ok()) return status.error();
  }
  if (!braces_.empty()) return wrong("a '{' has no '}'");
  if (pattern_.ends_with('/')) loop(Step::kAny);
  emit({.step = Step::kMatch});
  return std::move(glob_);
}

Status GlobCompiler::step() {
  switch (rest_.front()) {
    case '*':
      stars();
      return {};
    case '?':
      rest_.remove_prefix(1);
      emit({.step = Step::kAnyInName, .next = here() + 1});
      return {};
    case '[':
      return set();
    case '\\':
      return escape();
    case '{':
      openBrace();
      return {};
    case ',':
      if (!braces_.empty()) {
        nextAlternative();
        return {};
      }
      break;
    case '}':
      if (braces_.empty()) return wrong("a '}' has no '{'");
      closeBrace();
      return {};
    default:
      break;
  }
  const char32_t character = takeCharacter(rest_);
  emit({.step = Step::kCharacter, .character = character, .next = here() + 1});
  return {};
}

Status GlobCompiler::escape() {
  std::string_view after = rest_.substr(1);
  if (after.empty()) return wrong("a backslash ends it");
  const char32_t character = takeCharacter(after);
  rest_ = after;
  emit({.step = Step::kCharacter, .character = character, .next = here() + 1});
  return {};
}

// fork -> (step -> back to fork) | onwards
void GlobCompiler::loop(Step step) {
  const std::uint32_t fork = emit({.step = Step::kFork, .next = here() + 1, .other = here() + 2});
  emit({.step = step, .next = fork});
}

void GlobCompiler::stars() {
  const bool starts = atPartStart();
  std::string_view after = rest_;
  while (!after.empty() && after.front() == '*') after.remove_prefix(1);
  const bool several = rest_.size() - after.size() > 1;
  const bool parts = several && starts && atPartEnd(after);
  rest_ = after;
  if (!parts) {
    loop(Step::kAnyInName);
  } else if (!after.empty() && after.front() == '/') {
    // "**/": nothing, or anything that ends in '/'.
    rest_.remove_prefix(1);
    const std::uint32_t skip = emit({.step = Step::kFork, .next = here() + 1});
    loop(Step::kAny);
    emit({.step = Step::kCharacter, .character = U'/', .next = here() + 1});
    glob_.states_[skip].other = here();
  } else {
    loop(Step::kAny);
  }
}

Status GlobCompiler::set() {
  Glob::Set members;
  std::string_view at = rest_.substr(1);
  if (!at.empty() && (at.front() == '!' || at.front() == '^')) {
    members.negated = true;
    at.remove_prefix(1);
  }
  // A ']' that comes first is a member.
  for (bool first = true;; first = false) {
    if (at.empty()) return wrong("a '[' has no ']'");
    if (at.front() == ']' && !first) break;
    if (at.front() == '\\' && at.size() > 1) at.remove_prefix(1);
    const char32_t low = takeCharacter(at);
    char32_t high = low;
    if (at.size() > 1 && at[0] == '-' && at[1] != ']') {
      at.remove_prefix(1);
      if (at.front() == '\\' && at.size() > 1) at.remove_prefix(1);
      high = takeCharacter(at);
    }
    if (high < low) return wrong("a range in [...] runs backwards");
    members.ranges.push_back({low, high});
  }
  rest_ = at.substr(1);
  glob_.sets_.push_back(std::move(members));
  const auto index = static_cast<std::uint32_t>(glob_.sets_.size() - 1);
  emit({.step = Step::kSet, .set = index, .next = here() + 1});
  return {};
}

void GlobCompiler::openBrace() {
  rest_.remove_prefix(1);
  const std::uint32_t fork = emit({.step = Step::kFork, .next = here() + 1});
  braces_.push_back({.fork = fork, .ends = {}});
}

void GlobCompiler::nextAlternative() {
  rest_.remove_prefix(1);
  Brace& brace = braces_.back();
  brace.ends.push_back(emit({.step = Step::kJump}));
  glob_.states_[brace.fork].other = here();
  brace.fork = emit({.step = Step::kFork, .next = here() + 1});
}

void GlobCompiler::closeBrace() {
  rest_.remove_prefix(1);
  const Brace brace = std::move(braces_.back());
  braces_.pop_back();
  // The last fork has no further alternative.
  glob_.states_[brace.fork].step = Step::kJump;
  for (const std::uint32_t end : brace.ends) glob_.states_[end].next = here();
}

}  // namespace hearth
