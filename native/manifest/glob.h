// Patterns for paths of a manifest, as warm jobs and the CLI take them:
//   *       any characters of one name            ?       one character of a name
//   **      as a whole part: any number of parts  [a-z]   one character of a set; [!a-z] or [^a-z]:
//   not of it {a,b}   either; may be nested                 \x      the character x itself dir/
//   everything below dir
// Neither * nor ? nor a set matches '/'. Names that begin with a dot are like any other.
// Immutable: any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth {

class Glob {
 public:
  // kInvalidArgument, with the place in the pattern, when it cannot be read or is longer than 4096
  // bytes.
  [[nodiscard]] static Result<Glob> compile(std::string_view pattern);

  // True when the pattern matches the whole path. Time is at most (bytes of path) x (bytes of
  // pattern), whatever the pattern: all alternatives are followed at once (Thompson 1968).
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  friend class GlobCompiler;

  struct Range {
    char32_t first, last;
  };
  enum class Step : std::uint8_t {
    kCharacter,  // exactly `character`
    kAnyInName,  // anything but '/'
    kAny,        // anything
    kSet,        // one of sets_[set], not '/'
    kFork,       // go on at `next` and at `other`, without consuming
    kJump,       // go on at `next`
    kMatch,
  };
  struct State {
    Step step = Step::kMatch;
    char32_t character = 0;
    std::uint32_t set = 0;
    std::uint32_t next = 0;
    std::uint32_t other = 0;
  };
  struct Set {
    bool negated = false;
    std::vector<Range> ranges;
  };
  class Active;

  [[nodiscard]] bool accepts(const State& state, char32_t character) const;
  // Advances `members` by this character, into `next`.
  void step(const std::vector<std::uint32_t>& members, char32_t character, Active& next) const;
  [[nodiscard]] bool matchesLong(std::string_view path) const;

  std::vector<State> states_;  // states_[0] is the start
  std::vector<Set> sets_;
};

}  // namespace hearth
