#include "fetch/source_rounds.h"

#include <algorithm>
#include <bit>

namespace hearth {

// Once the file has been wrong, gave() notes all givers while the file is wanted.
void SourceRounds::open(bool some) {
  if (!inOrder()) {
    ofOthers_ = some;
  } else if (!some) {
    given_ = 0;
    ofOthers_ = false;
  }
}

void SourceRounds::use(const std::shared_ptr<const SourceSet>& set) {
  std::vector<std::string> names;
  for (const SourceSet::Source& source : set->sources) names.push_back(source.name);
  const bool isKnown = names == names_;
  if (!isKnown || set_.expired()) set_ = set;
  if (isKnown) return;
  ofOthers_ = ofOthers_ || given_ != 0;
  given_ = wrong_ = 0;
  current_.reset();
  gaveUp_ = 0;
  names_ = std::move(names);
}

void SourceRounds::gave(const std::shared_ptr<const SourceSet>& set, SourceMask sources) {
  use(set);
  given_ |= sources;
}

SourceMask SourceRounds::next(const std::shared_ptr<const SourceSet>& set,
                              const SourceRanking::View& view, Clock::time_point now) {
  use(set);
  if (wrong_ != 0 && now - wrongAt_ >= kWrongHolds) wrong_ = 0;
  SourceMask among = view.having & ~wrong_;
  // All have given up: another request may ask each of them as often again.
  if ((among & ~gaveUp_) == 0) gaveUp_ &= ~among;
  among &= ~gaveUp_;
  if (among == 0) return 0;
  if (!current_ || !isIn(among, *current_)) {
    const SourceMask from = (among & view.answering) != 0 ? among & view.answering : among;
    // Each round begins with the next source, so that each has its turn however others fail.
    current_ = (timesWrong_ - 1) % names_.size();
    while (!isIn(from, *current_)) current_ = (*current_ + 1) % names_.size();
  }
  return bitOfSource(*current_);
}

std::optional<std::size_t> SourceRounds::onlyGiver() const {
  if (ofOthers_ || std::popcount(given_) != 1) return std::nullopt;
  return static_cast<std::size_t>(std::countr_zero(given_));
}

void SourceRounds::beginRound() {
  given_ = 0;
  ofOthers_ = false;
  current_.reset();
  gaveUp_ = 0;
}

void SourceRounds::right() {
  const std::optional<std::size_t> giver = onlyGiver();
  const std::shared_ptr<const SourceSet> set = set_.lock();
  if (giver && set) set->ranking.trust(*giver, why_);
  timesWrong_ = 0;
  wrong_ = 0;
  beginRound();
}

std::vector<std::string> SourceRounds::wrong(const std::string& why, Clock::time_point now) {
  if (!inOrder()) why_ = why;
  const std::optional<std::size_t> giver = onlyGiver();
  // The first source may have changed between two requests: it is asked once more.
  if (giver && (inOrder() || *giver != 0)) {
    wrong_ |= given_;
    wrongAt_ = now;
  }
  const bool firstToo = isIn(wrong_, 0);
  const SourceMask blamed = firstToo ? given_ | wrong_ : given_;
  const std::shared_ptr<const SourceSet> set = set_.lock();
  std::vector<std::string> aside;
  for (std::size_t mirror = 1; set && mirror < set->sources.size(); ++mirror) {
    if (!isIn(blamed, mirror)) continue;
    if (set->ranking.distrust(mirror, giver && !firstToo, why_, now))
      aside.push_back(set->sources[mirror].name);
  }
  ++timesWrong_;
  beginRound();
  return aside;
}

bool SourceRounds::everywhere(const std::shared_ptr<const SourceSet>& set, SourceMask having) {
  use(set);
  const std::size_t sources = set->sources.size();
  const std::size_t rounds = sources == 1 ? 1 : 2 * std::min(sources, kMaxSourcesTried);
  return timesWrong_ > rounds || (wrong_ != 0 && (having & ~wrong_) == 0);
}

void SourceRounds::again() {
  const std::shared_ptr<const SourceSet> set = set_.lock();
  for (std::size_t mirror = 1; set && isIn(wrong_, 0) && mirror < set->sources.size(); ++mirror)
    set->ranking.trust(mirror, why_);
  timesWrong_ = 1;
  wrong_ = 0;
  beginRound();
}

}  // namespace hearth
