#include "dataset/source_choice.h"

#include <algorithm>
#include <limits>

namespace hearth {
namespace {

bool isIn(SourceMask mask, std::size_t source) { return ((mask >> source) & 1) != 0; }

std::uint64_t keyOf(std::size_t source, std::uint32_t entry) {
  return (std::uint64_t{source} << 32) | entry;
}

}  // namespace

SourceChoice::SourceChoice(std::size_t sources)
    : sources_(std::clamp<std::size_t>(sources, 1, kMaxSources)) {}

SourceMask SourceChoice::having(SourceMask among, std::uint32_t entry, Clock::time_point now) {
  SourceMask mask = 0;
  for (std::size_t source = 0; source < sources_.size(); ++source) {
    if (!isIn(among, source)) continue;
    if (sources_[source].liarUntil > now) continue;
    const auto known = lacking_.find(keyOf(source, entry));
    if (known != lacking_.end() && known->second > now) continue;
    mask |= bitOfSource(source);
  }
  return mask;
}

bool SourceChoice::isWell(const Source& source, Clock::time_point now) {
  return source.failures == 0 && source.suspectUntil <= now;
}

bool SourceChoice::isDue(const Source& source, Clock::time_point now) {
  return source.failures != 0 && !source.probing && source.asideUntil <= now &&
         source.suspectUntil <= now;
}

bool SourceChoice::isMeasured(const Source& source, Clock::time_point now) {
  return source.rates.count() != 0 && now - source.measuredAt < kRateHolds;
}

// Of n requests under way each takes about as long as the last ones did; so where (n + 1) / rate is
// smallest the sources share the requests as they are fast. One that is not measured counts as the
// fastest, and is found out about by one request; as long as that is under way it counts as slower
// than all that are measured.
std::optional<std::size_t> SourceChoice::soonest(SourceMask among, Clock::time_point now) const {
  double fastest = 1;
  for (const Source& source : sources_) {
    if (isMeasured(source, now)) fastest = std::max(fastest, source.rates.quantile(0.5));
  }
  std::optional<std::size_t> best;
  double bestTime = std::numeric_limits<double>::max();
  bool bestMeasured = true;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (!isIn(among, at) || !isWell(source, now)) continue;
    const bool measured = isMeasured(source, now);
    const double tried = source.running == 0 ? fastest : 1;
    const double rate = measured ? std::max(1.0, source.rates.quantile(0.5)) : tried;
    const double time = static_cast<double>(source.running + 1) / rate;
    if (time < bestTime || (time == bestTime && bestMeasured && !measured)) {
      best = at;
      bestTime = time;
      bestMeasured = measured;
    }
  }
  return best;
}

std::size_t SourceChoice::nextBack(SourceMask among) const {
  std::optional<std::size_t> next;
  const auto back = [this](std::size_t at) {
    return std::max(sources_[at].asideUntil, sources_[at].suspectUntil);
  };
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    if (!isIn(among, at)) continue;
    if (!next || back(at) < back(*next)) next = at;
  }
  return *next;
}

SourceMask SourceChoice::liars(SourceMask among, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  SourceMask mask = 0;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    if (isIn(among, at) && sources_[at].liarUntil > now) mask |= bitOfSource(at);
  }
  return mask;
}

SourceMask SourceChoice::mayHave(SourceMask among, std::uint32_t entry, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return having(among, entry, now);
}

SourceMask SourceChoice::usable(SourceMask among, std::uint32_t entry, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const SourceMask mask = having(among, entry, now);
  SourceMask well = 0;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (isIn(mask, at) && (isWell(source, now) || isDue(source, now))) well |= bitOfSource(at);
  }
  return well != 0 ? well : mask;
}

SourceMask SourceChoice::answering(SourceMask among, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (source.failures != 0 && source.asideUntil > now) among &= ~bitOfSource(at);
  }
  return among;
}

std::optional<SourceChoice::Turn> SourceChoice::begin(SourceMask among, std::uint32_t entry,
                                                      Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const SourceMask mask = having(among, entry, now);
  if (mask == 0) return std::nullopt;
  Turn turn{.source = 0, .begun = now, .probe = false};
  const auto due = [&](std::size_t at) { return isIn(mask, at) && isDue(sources_[at], now); };
  std::size_t probed = 0;
  while (probed < sources_.size() && !due(probed)) ++probed;
  if (probed < sources_.size()) {
    turn.source = probed;
  } else {
    const auto best = soonest(mask, now);
    turn.source = best ? *best : nextBack(mask);
  }
  Source& source = sources_[turn.source];
  turn.probe = source.failures != 0 && !source.probing;
  source.probing = source.probing || turn.probe;
  ++source.running;
  return turn;
}

std::optional<std::size_t> SourceChoice::beside(const Turn& turn, SourceMask among,
                                                std::uint32_t entry, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return soonest(having(among, entry, now) & ~bitOfSource(turn.source), now);
}

std::optional<Clock::duration> SourceChoice::longestTurn(const Turn& turn, SourceMask others,
                                                         std::uint64_t bytes,
                                                         Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  double best = 0;
  for (std::size_t at = 0; at < sources_.size(); ++at) {
    const Source& source = sources_[at];
    if (at == turn.source || !isIn(others, at) || !isWell(source, now)) continue;
    // Behind what it has to do, as when it is chosen.
    const auto before = static_cast<double>(source.running + 1);
    if (isMeasured(source, now)) best = std::max(best, source.rates.quantile(0.5) / before);
  }
  if (best < 1) return std::nullopt;
  const std::chrono::duration<double> seconds(kSlowness * static_cast<double>(bytes) / best);
  return std::chrono::duration_cast<Clock::duration>(seconds);
}

void SourceChoice::leaveAlone(std::size_t source, Clock::time_point until) {
  const std::lock_guard lock(mutex_);
  sources_[source].leftAloneUntil = std::max(sources_[source].leftAloneUntil, until);
}

Clock::time_point SourceChoice::notBefore(std::size_t source) const {
  const std::lock_guard lock(mutex_);
  return sources_[source].leftAloneUntil;
}

bool SourceChoice::wanted(const Turn& turn) const {
  const std::lock_guard lock(mutex_);
  const Source& source = sources_[turn.source];
  const bool aside = source.failures != 0 && source.asideAt > turn.begun;
  return !aside && std::max(source.suspectAt, source.liedAt) <= turn.begun;
}

bool SourceChoice::well(std::size_t source, Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const Source& asked = sources_[source];
  return isWell(asked, now) && asked.leftAloneUntil <= now && asked.liarUntil <= now;
}

SourceChoice::Source& SourceChoice::end(const Turn& turn, std::uint64_t bytes) {
  Source& source = sources_[turn.source];
  --source.running;
  if (turn.probe) source.probing = false;
  source.counts.bytes += bytes;
  return source;
}

SourceChoice::Source& SourceChoice::endFailed(const Turn& turn, std::uint64_t bytes) {
  Source& source = end(turn, bytes);
  ++source.counts.requests;
  ++source.counts.failures;
  return source;
}

void SourceChoice::measure(Source& source, const Turn& turn, std::uint64_t bytes,
                           Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - turn.begun).count();
  source.rates.add(static_cast<double>(bytes) / std::max(seconds, 1e-6));
  source.measuredAt = now;
}

bool SourceChoice::succeeded(const Turn& turn, std::uint64_t bytes, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = end(turn, bytes);
  ++source.counts.requests;
  measure(source, turn, bytes, now);
  source.lacking = 0;
  // A transfer that began before the failure says nothing about the present state.
  if (source.failures == 0 || turn.begun < source.asideAt) return false;
  source.failures = 0;
  source.asideUntil = Clock::time_point::min();
  source.counts.aside.clear();
  return true;
}

bool SourceChoice::putAside(Source& source, const Turn& turn, const std::string& why,
                            Clock::time_point now) {
  // All that was under way when it failed fails with it: that is one failure.
  if (source.failures != 0 && turn.begun < source.asideAt) return false;
  const bool wasWell = source.failures == 0;
  source.failures = std::min(source.failures + 1, 16);
  const Clock::duration aside = kFirstAside * (std::int64_t{1} << (source.failures - 1));
  source.asideAt = now;
  source.asideUntil = now + std::min<Clock::duration>(aside, kLongestAside);
  source.counts.aside = why;
  return wasWell;
}

bool SourceChoice::failed(const Turn& turn, std::uint64_t bytes, const std::string& why,
                          Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = endFailed(turn, bytes);
  return putAside(source, turn, why, now);
}

bool SourceChoice::straggled(const Turn& turn, std::uint64_t bytes, std::size_t other,
                             std::uint64_t others, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = end(turn, bytes - std::min(bytes, others));
  sources_[other].counts.bytes += std::min(bytes, others);
  ++source.counts.requests;
  ++source.counts.stragglers;
  return putAside(source, turn, "it was slow, and another source was faster", now);
}

bool SourceChoice::brokeOff(std::size_t source, Clock::time_point begun, const std::string& why,
                            Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++sources_[source].counts.failures;
  return putAside(sources_[source], {.source = source, .begun = begun}, why, now);
}

bool SourceChoice::lacks(const Turn& turn, std::uint32_t entry, const std::string& why,
                         Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = end(turn, 0);
  ++source.counts.requests;
  if (++source.lacking >= kLacksInRow) putAside(source, turn, why, now);
  return noteLacking(turn.source, entry, now);
}

bool SourceChoice::refused(const Turn& turn, std::uint64_t bytes, const std::string& why,
                           Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& source = endFailed(turn, bytes);
  return ++source.lacking >= kLacksInRow && putAside(source, turn, why, now);
}

bool SourceChoice::unproved(std::size_t source, std::uint32_t entry, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return noteLacking(source, entry, now);
}

bool SourceChoice::noteLacking(std::size_t source, std::uint32_t entry, Clock::time_point now) {
  if (lacking_.size() >= kMaxLacking) lacking_.clear();
  Clock::time_point& until = lacking_[keyOf(source, entry)];
  if (until > now) return false;
  until = now + kLacksHolds;
  return ++sources_[source].counts.unproved == 1;
}

void SourceChoice::abandoned(const Turn& turn, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  end(turn, bytes);
}

bool SourceChoice::lied(std::size_t source, const std::string& why, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& liar = sources_[source];
  ++liar.counts.failures;
  const bool known = liar.liarUntil > now;
  liar.lies = known ? liar.lies + 1 : 1;
  liar.liedAt = now;
  liar.liarUntil = now + kLieHolds;
  liar.lie = why;
  return !known;
}

bool SourceChoice::suspected(std::size_t source, const std::string& why, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  Source& suspect = sources_[source];
  ++suspect.counts.failures;
  const bool known = suspect.suspectUntil > now || suspect.liarUntil > now;
  suspect.suspectAt = now;
  suspect.suspectUntil = now + kSuspicionHolds;
  if (!known) suspect.lie = why;
  return !known;
}

void SourceChoice::acquitted(std::size_t source) {
  const std::lock_guard lock(mutex_);
  Source& freed = sources_[source];
  if (--freed.lies <= 0) freed.liarUntil = Clock::time_point::min();
}

void SourceChoice::cleared(std::size_t source) {
  const std::lock_guard lock(mutex_);
  sources_[source].suspectUntil = Clock::time_point::min();
}

std::vector<SourceStatistics> SourceChoice::statistics(Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  std::vector<SourceStatistics> all;
  for (const Source& source : sources_) {
    all.push_back(source.counts);
    if (source.failures != 0 && !source.probing && now >= source.asideUntil + kRateHolds)
      all.back().aside.clear();
    if (source.liarUntil > now || source.suspectUntil > now) all.back().aside = source.lie;
  }
  return all;
}

}  // namespace hearth
