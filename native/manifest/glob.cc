#include "manifest/glob.h"

#include <algorithm>

#include "manifest/glob_compiler.h"

namespace hearth {

// The consuming states that are active at one place of the path, each once.
class Glob::Active {
 public:
  explicit Active(const std::vector<State>& states) : states_(states), seen_(states.size(), 0) {}

  void clear() {
    members.clear();
    matched = false;
    ++generation_;
  }

  // Adds `start` and everything that can be reached from it without consuming.
  void add(std::uint32_t start) {
    pending_.push_back(start);
    while (!pending_.empty()) {
      const std::uint32_t index = pending_.back();
      pending_.pop_back();
      if (seen_[index] == generation_) continue;
      seen_[index] = generation_;
      const State& state = states_[index];
      switch (state.step) {
        case Step::kFork:
          pending_.push_back(state.other);
          pending_.push_back(state.next);
          break;
        case Step::kJump:
          pending_.push_back(state.next);
          break;
        case Step::kMatch:
          matched = true;
          break;
        case Step::kCharacter:
        case Step::kAnyInName:
        case Step::kAny:
        case Step::kSet:
          members.push_back(index);
          break;
      }
    }
  }

  std::vector<std::uint32_t> members;
  bool matched = false;

 private:
  const std::vector<State>& states_;
  std::vector<std::uint32_t> seen_;
  std::vector<std::uint32_t> pending_;
  std::uint32_t generation_ = 1;
};

Result<Glob> Glob::compile(std::string_view pattern) { return GlobCompiler(pattern).compile(); }

bool Glob::accepts(const State& state, char32_t character) const {
  switch (state.step) {
    case Step::kCharacter:
      return state.character == character;
    case Step::kAnyInName:
      return character != U'/';
    case Step::kAny:
      return true;
    case Step::kSet: {
      const Set& set = sets_[state.set];
      const bool inside = std::any_of(
          set.ranges.begin(), set.ranges.end(),
          [character](Range range) { return range.first <= character && character <= range.last; });
      return character != U'/' && inside != set.negated;
    }
    case Step::kFork:
    case Step::kJump:
    case Step::kMatch:
      return false;
  }
  return false;
}

bool Glob::matches(std::string_view path) const {
  Active now(states_);
  Active next(states_);
  now.add(0);
  while (!path.empty() && !now.members.empty()) {
    const char32_t character = takeCharacter(path);
    next.clear();
    for (const std::uint32_t index : now.members) {
      if (accepts(states_[index], character)) next.add(states_[index].next);
    }
    std::swap(now.members, next.members);
    std::swap(now.matched, next.matched);
  }
  return path.empty() && now.matched;
}

}  // namespace hearth
