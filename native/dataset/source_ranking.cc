#include "dataset/source_ranking.h"

#include <algorithm>
#include <tuple>

namespace hearth {
namespace {

std::uint64_t keyOf(std::size_t source, std::uint32_t entry) {
  return (std::uint64_t{source} << 32) | entry;
}

}  // namespace

SourceRanking::SourceRanking(std::size_t sources)
    : sources_(std::clamp<std::size_t>(sources, 1, kMaxSources)) {}

std::optional<double> SourceRanking::Source::rate(Clock::time_point now) const {
  if (failures != 0 || rates.count() == 0 || now - measuredAt >= kRateHolds) return std::nullopt;
  return std::max(1.0, rates.quantile(0.5));
}

// Requests that were under way when the source failed fail with it: they are one failure.
bool SourceRanking::Source::setAside(const Turn& turn, const std::string& why,
                                     Clock::time_point now) {
  if (failures != 0 && turn.begun < asideAt) return false;
  const bool isNew = failures == 0;
  failures = std::min(failures + 1, 16);
  const Clock::duration pause = kFirstAside * (std::int64_t{1} << (failures - 1));
  asideAt = now;
  asideUntil = now + std::min<Clock::duration>(pause, kLongestAside);
  counts.aside = why;
  return isNew;
}

// A transfer that began before the failure says nothing about the present state.
bool SourceRanking::Source::takeBack(const Turn& turn) {
  refusals = 0;
  if (failures == 0 || turn.begun < asideAt) return false;
  failures = 0;
  asideUntil = Clock::time_point::min();
  counts.aside.clear();
  return true;
}

SourceRanking::View SourceRanking::look(SourceMask among, std::uint32_t entry,
                                        Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  View view;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    const SourceMask bit = bitOfSource(at) & among;
    const auto lacking = lacking_.find(keyOf(at, entry));
    const bool lied = source.lied && source.isDoubted(now);
    if (lied) view.lied |= bit;
    if (lied || (lacking != lacking_.end() && lacking->second > now)) continue;
    view.having |= bit;
    if (std::max(source.asideUntil, source.leftAloneUntil) > now) continue;
    view.answering |= bit;
    if (source.isDoubted(now)) continue;
    if (source.failures == 0) view.healthy |= bit;
    if (source.failures != 0 && source.running == 0) view.due |= bit;
  }
  return view;
}

// Of n requests under way each takes about as long as the last ones did; so sources share requests
// as they are fast when (n + 1) / rate decides. A source that is not measured counts as the
// fastest for one request, and as slower than all that are measured while that is under way.
SourceRanking::Turn SourceRanking::begin(SourceMask among, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  double fastest = 1;
  for (const Source& source : sources_) fastest = std::max(fastest, source.rate(now).value_or(1));
  using Rank = std::tuple<Clock::time_point, double, bool>;
  std::optional<Rank> best;
  Turn turn{.source = 0, .begun = now};
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (!isIn(among, at)) continue;
    const Clock::time_point free = std::max({now, source.asideUntil, source.doubtedUntil});
    const std::optional<double> rate = source.rate(now);
    const double unknown = source.running == 0 ? fastest : 1;
    const double time = static_cast<double>(source.running + 1) / rate.value_or(unknown);
    const Rank rank{free, time, rate.has_value()};
    if (best && *best <= rank) continue;
    best = rank;
    turn.source = at;
  }
  ++sources_[turn.source].running;
  return turn;
}

bool SourceRanking::end(const Turn& turn, Outcome outcome, std::uint64_t bytes,
                        const std::string& why, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = sources_[turn.source];
  --source.running;
  source.counts.bytes += bytes;
  if (outcome == Outcome::kUndecided) return false;
  ++source.counts.requests;
  if (outcome == Outcome::kGave) {
    const double seconds = std::chrono::duration<double>(now - turn.begun).count();
    source.rates.add(static_cast<double>(bytes) / std::max(seconds, 1e-6));
    source.measuredAt = now;
    return source.takeBack(turn);
  }
  if (outcome == Outcome::kSlow) ++source.counts.stragglers;
  if (outcome == Outcome::kFailed || outcome == Outcome::kRefused) ++source.counts.failures;
  const bool ofEntry = outcome == Outcome::kRefused || outcome == Outcome::kLacks;
  if (ofEntry && ++source.refusals < kMaxRefusals) return false;
  return source.setAside(turn, why, now);
}

bool SourceRanking::wanted(const Turn& turn) const {
  const std::lock_guard lock(mutex_);
  const Source& source = sources_[turn.source];
  const bool aside = source.failures != 0 && source.asideAt > turn.begun;
  return !aside && source.doubtedAt <= turn.begun;
}

std::optional<Clock::duration> SourceRanking::patience(const Turn& turn, SourceMask others,
                                                       std::uint64_t bytes,
                                                       Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  double best = 0;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (at == turn.source || !isIn(others, at)) continue;
    best = std::max(best, source.rate(now).value_or(0) / static_cast<double>(source.running + 1));
  }
  if (best == 0) return std::nullopt;
  const std::chrono::duration<double> seconds(kSlowness * static_cast<double>(bytes) / best);
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

void SourceRanking::leaveAlone(std::size_t source, Clock::time_point until) {
  const std::lock_guard lock(mutex_);
  sources_[source].leftAloneUntil = std::max(sources_[source].leftAloneUntil, until);
}

SourceMask SourceRanking::leftAlone(SourceMask among, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    if (sources_[at].leftAloneUntil <= now) among &= ~bitOfSource(at);
  }
  return among;
}

bool SourceRanking::lacks(std::size_t source, std::uint32_t entry, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (lacking_.size() >= kMaxLacking) lacking_.clear();
  Clock::time_point& until = lacking_[keyOf(source, entry)];
  if (until > now) return false;
  until = now + kLacksHolds;
  return ++sources_[source].counts.unproved == 1;
}

bool SourceRanking::distrust(std::size_t source, bool lied, const std::string& why,
                             Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& doubted = sources_[source];
  ++doubted.counts.failures;
  const bool known = doubted.isDoubted(now);
  if (known && doubted.lied && !lied && doubted.doubt != why) return false;
  doubted.lied = lied;
  doubted.doubtedAt = now;
  doubted.doubtedUntil = now + (lied ? Clock::duration(kLieHolds) : kSuspicionHolds);
  doubted.doubt = why;
  return !known;
}

void SourceRanking::trust(std::size_t source, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (sources_[source].doubt == why) sources_[source].doubtedUntil = Clock::time_point::min();
}

// A source whose pause is long over, as no request came that would have tried it, is not aside.
std::vector<SourceStatistics> SourceRanking::statistics(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  std::vector<SourceStatistics> all;
  for (const Source& source : sources_) {
    all.push_back(source.counts);
    if (source.failures != 0 && source.running == 0 && now >= source.asideUntil + kRateHolds)
      all.back().aside.clear();
    if (source.isDoubted(now)) all.back().aside = source.doubt;
  }
  return all;
}

}  // namespace hearth
