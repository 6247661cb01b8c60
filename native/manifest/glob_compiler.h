// From a pattern's text to a Glob's states. Private to this room.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "manifest/glob.h"

namespace hearth {

// The code point at the start of `text`, which it is removed from. A byte that is not UTF-8 gives a
// value above U+10FFFF of its own, which only equals itself.
[[nodiscard]] char32_t takeCharacter(std::string_view& text);

class GlobCompiler {
 public:
  explicit GlobCompiler(std::string_view pattern) : pattern_(pattern), rest_(pattern) {}
  [[nodiscard]] Result<Glob> compile();

 private:
  using Step = Glob::Step;

  // An open '{': where its last fork and the ends of its finished alternatives are.
  struct Brace {
    std::uint32_t fork;
    std::vector<std::uint32_t> ends;
  };

  std::uint32_t emit(Glob::State state);
  [[nodiscard]] std::uint32_t here() const {
    return static_cast<std::uint32_t>(glob_.states_.size());
  }
  [[nodiscard]] Error wrong(std::string_view what) const;
  [[nodiscard]] bool atPartStart() const;
  [[nodiscard]] bool atPartEnd(std::string_view after) const;

  Status step();
  Status set();
  Status escape();
  void stars();
  void loop(Step step);
  void openBrace();
  void nextAlternative();
  void closeBrace();

  const std::string_view pattern_;
  std::string_view rest_;
  std::vector<Brace> braces_;
  Glob glob_;
};

}  // namespace hearth
