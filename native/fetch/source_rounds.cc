#include "fetch/source_rounds.h"

#include <algorithm>
#include <bit>

namespace hearth {
namespace {

bool isIn(SourceMask mask, std::size_t source) { return (mask & bitOfSource(source)) != 0; }

}  // namespace

SourceMask SourceOrder::admitted(SourceMask among, Clock::time_point now) {
  const bool noOther = (among & ~wrong_ & ~failed_) == 0;
  if (noOther && wrong_ != 0 && now - wrongAt_ >= kWrongHolds) {
    wrong_ = 0;
    failed_ = 0;
  }
  return among & ~wrong_;
}

SourceMask SourceOrder::next(SourceMask among, SourceMask due, SourceMask well) {
  among &= ~wrong_;
  // All have given up: another request may ask each of them as often again.
  if ((among & ~failed_) == 0) failed_ &= ~among;
  among &= ~failed_;
  due &= among;
  const bool stays = current_ && isIn(due != 0 ? due : among, *current_);
  if (stays) return bitOfSource(*current_);
  for (const SourceMask from : {due & well, due, among}) {
    if (from == 0) continue;
    current_ = from_;
    while (!isIn(from, *current_)) current_ = (*current_ + 1) % SourceChoice::kMaxSources;
    return bitOfSource(*current_);
  }
  return 0;
}

void SourceOrder::beginRound(std::uint32_t timesWrong) {
  from_ = (timesWrong - 1) % sources_;
  current_.reset();
  failed_ = 0;
}

// Once the file has been wrong, gave() notes all givers while the file is wanted.
void SourceRounds::open(bool some) {
  if (!inOrder()) {
    ofOthers_ = some;
  } else if (!some) {
    forgetGivers();
  }
}

void SourceRounds::forgetGivers() {
  for (const auto& [set, order] : orders_) order->given_ = 0;
  ofOthers_ = false;
}

// Convicts a mirror once: other files may have convicted it, too. A suspicion belongs to the file
// that raised it first.
bool SourceOrder::blame(const SourceSet& set, std::size_t mirror, bool known,
                        const std::string& why, Clock::time_point now) {
  const SourceMask bit = bitOfSource(mirror);
  if (!known || isIn(wrong_, 0)) {
    const bool isNew = set.choice.suspected(mirror, why, now);
    if (isNew) suspected_ |= bit;
    return isNew;
  }
  if ((convicted_ & set.choice.liars(bit, now)) != 0) return false;
  convicted_ |= bit;
  return set.choice.lied(mirror, why, now);
}

void SourceOrder::onlySuspect(const SourceSet& set, const std::string& why, Clock::time_point now) {
  for (std::size_t mirror = 1; mirror < set.sources.size(); ++mirror) {
    if (!isIn(convicted_, mirror)) continue;
    set.choice.acquitted(mirror);
    if (set.choice.suspected(mirror, why, now)) suspected_ |= bitOfSource(mirror);
  }
  wrong_ |= convicted_;
  convicted_ = 0;
}

SourceOrder& SourceRounds::of(const std::shared_ptr<const SourceSet>& set) {
  std::shared_ptr<SourceOrder>& order = orders_[set];
  if (order == nullptr) {
    order.reset(new SourceOrder(set->sources.size()));
    if (inOrder()) order->beginRound(timesWrong_);
  }
  return *order;
}

std::shared_ptr<SourceOrder> SourceRounds::order(const std::shared_ptr<const SourceSet>& set) {
  if (!inOrder()) return nullptr;
  (void)of(set);
  return orders_[set];
}

void SourceRounds::gave(const std::shared_ptr<const SourceSet>& set, SourceMask sources) {
  of(set).given_ |= sources;
}

const SourceOrder* SourceRounds::onlyGiver() const {
  const SourceOrder* only = nullptr;
  for (const auto& [set, order] : orders_) {
    if (order->given_ == 0) continue;
    if (only != nullptr || std::popcount(order->given_) != 1) return nullptr;
    only = order.get();
  }
  return ofOthers_ ? nullptr : only;
}

void SourceRounds::right() {
  const SourceOrder* const giver = onlyGiver();
  for (const auto& [of, order] : orders_) {
    if (giver != order.get() || (order->suspected_ & order->given_) == 0) continue;
    if (const auto set = of.lock())
      set->choice.cleared(static_cast<std::size_t>(std::countr_zero(order->given_)));
  }
  timesWrong_ = timesOfOthers_ = 0;
  ofOthers_ = false;
  orders_.clear();
}

void SourceRounds::beginRound() {
  forgetGivers();
  for (const auto& [set, order] : orders_) order->beginRound(timesWrong_);
}

std::vector<std::string> SourceRounds::wrong(const std::string& why, Clock::time_point now) {
  const bool known = onlyGiver() != nullptr;
  std::vector<std::string> aside;
  bool given = false;
  for (const auto& [of, order] : orders_) {
    if (order->given_ != 0) {
      ++order->timesWrong_;
      given = true;
    }
    if (known && inOrder() && order->given_ != 0) {
      order->wrong_ |= order->given_;
      order->wrongAt_ = now;
    }
    const std::shared_ptr<const SourceSet> set = of.lock();
    if (set && isIn(order->wrong_, 0)) order->onlySuspect(*set, why, now);
    for (std::size_t mirror = 1; set && mirror < set->sources.size(); ++mirror) {
      if (!isIn(order->given_, mirror)) continue;
      if (order->blame(*set, mirror, known, why, now)) aside.push_back(set->sources[mirror].name);
    }
  }
  ++timesWrong_;
  if (!given) ++timesOfOthers_;
  beginRound();
  return aside;
}

bool SourceRounds::everywhere(const std::shared_ptr<const SourceSet>& set,
                              SourceMask usable) const {
  const std::size_t sources = set->sources.size();
  const std::size_t rounds = sources == 1 ? 1 : 2 * std::min(sources, kMaxSourcesTried);
  const auto known = orders_.find(set);
  if (known == orders_.end()) return timesOfOthers_ > rounds;
  const SourceOrder& order = *known->second;
  if (timesOfOthers_ + order.timesWrong_ > rounds) return true;
  return order.wrong_ != 0 && (usable & ~order.wrong_) == 0;
}

void SourceRounds::again() {
  timesWrong_ = timesOfOthers_ = 1;
  for (const auto& [of, order] : orders_) {
    const std::shared_ptr<const SourceSet> set = of.lock();
    const bool alsoFirst = set && isIn(order->wrong_, 0);
    for (std::size_t mirror = 1; alsoFirst && mirror < set->sources.size(); ++mirror) {
      if (isIn(order->suspected_, mirror)) set->choice.cleared(mirror);
    }
    order->wrong_ = order->convicted_ = order->suspected_ = 0;
    order->timesWrong_ = 0;
  }
  beginRound();
}

}  // namespace hearth
