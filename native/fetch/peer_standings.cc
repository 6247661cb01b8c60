#include "fetch/peer_standings.h"

#include <algorithm>

namespace hearth {
namespace {

// The weight of the last chunk: a change shows within some ten chunks.
constexpr int kWeight = 8;

}  // namespace

Clock::duration PeerStandings::patience() const {
  return std::max(kShortest, kTimesUsual * usual_);
}

void PeerStandings::late(const std::string& node, TimePoint now) {
  Standing& standing = late_[node];
  if (standing.late == 0) standing.since = now;
  if (++standing.late >= kLate) standing.until = now + kLeftOut;
}

void PeerStandings::gave(const std::string& node, Clock::duration took, TimePoint now) {
  gaveAt_ = now;
  usual_ += (took - usual_) / kWeight;
  late_.erase(node);
}

bool PeerStandings::leavesOut(const std::string& node, TimePoint now) {
  const auto known = late_.find(node);
  if (known == late_.end() || known->second.late < kLate) return false;
  if (gaveAt_ < known->second.since) return false;
  if (now < known->second.until) return true;
  known->second.until = now + kLeftOut;
  return false;
}

}  // namespace hearth
