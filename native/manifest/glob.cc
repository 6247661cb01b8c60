#include "manifest/glob.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "manifest/glob_compiler.h"

namespace hearth {
namespace {

// Below it, remembering costs more than it saves.
constexpr std::size_t kShortPath = 255;
constexpr std::size_t kMaxKnownSets = 512;

}  // namespace

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

void Glob::step(const std::vector<std::uint32_t>& members, char32_t character, Active& next) const {
  next.clear();
  for (const std::uint32_t index : members) {
    if (accepts(states_[index], character)) next.add(states_[index].next);
  }
}

bool Glob::matches(std::string_view path) const {
  if (path.size() > kShortPath) return matchesLong(path);
  Active now(states_);
  Active next(states_);
  now.add(0);
  while (!path.empty() && !now.members.empty()) {
    const char32_t character = takeCharacter(path);
    step(now.members, character, next);
    std::swap(now.members, next.members);
    std::swap(now.matched, next.matched);
  }
  return path.empty() && now.matched;
}

// Sets of states come again and again in a long path: where each goes on with a character is
// computed once, as a lazily built deterministic automaton.
bool Glob::matchesLong(std::string_view path) const {
  struct Known {
    std::vector<std::uint32_t> members;
    bool matched = false;
    std::unordered_map<char32_t, std::uint32_t> next;
  };
  Active active(states_);
  std::vector<Known> known;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
  const auto numberOf = [&]() {
    std::sort(active.members.begin(), active.members.end());
    // Two sets with the same members match alike: what leads to the end is reached by them all.
    std::vector<std::uint32_t> name = active.members;
    if (active.matched) name.push_back(static_cast<std::uint32_t>(states_.size()));
    const auto [found, added] =
        numbers.emplace(std::move(name), static_cast<std::uint32_t>(known.size()));
    if (added) known.push_back({active.members, active.matched, {}});
    return found->second;
  };
  active.add(0);
  std::uint32_t at = numberOf();
  while (!path.empty() && !known[at].members.empty()) {
    const char32_t character = takeCharacter(path);
    const auto found = known[at].next.find(character);
    if (found != known[at].next.end()) {
      at = found->second;
      continue;
    }
    step(known[at].members, character, active);
    if (known.size() >= kMaxKnownSets) {  // forgets them all: memory stays bounded
      known.clear();
      numbers.clear();
      at = numberOf();
      continue;
    }
    const std::uint32_t next = numberOf();
    known[at].next.emplace(character, next);
    at = next;
  }
  return path.empty() && known[at].matched;
}

}  // namespace hearth
