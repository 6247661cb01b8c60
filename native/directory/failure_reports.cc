#include "directory/failure_reports.h"

#include <algorithm>

namespace hearth {

template <class Condition>
void FailureReports::eraseIf(Condition condition) {
  for (auto entry = reports_.begin(); entry != reports_.end();) {
    size_ -= std::erase_if(entry->second, condition);
    entry = entry->second.empty() ? reports_.erase(entry) : std::next(entry);
  }
}

bool FailureReports::note(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                          TimePoint now) {
  if (size_ >= sweepAt_) {
    eraseIf([&](const Report& each) { return now - each.since >= kLifetime; });
    sweepAt_ = std::max<std::size_t>(1024, 2 * size_);
  }
  std::vector<Report>& ofChunk = reports_[chunk];
  size_ -= std::erase_if(ofChunk, [&](const Report& each) {
    return now - each.since >= kLifetime || (each.asker == asker && each.holder == holder);
  });
  ofChunk.push_back({.asker = asker, .holder = holder, .since = now});
  ++size_;
  const auto reporters = std::count_if(ofChunk.begin(), ofChunk.end(),
                                       [&](const Report& each) { return each.holder == holder; });
  return static_cast<std::size_t>(reporters) >= kMinReporters;
}

bool FailureReports::holds(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                           TimePoint now) const {
  const auto found = reports_.find(chunk);
  if (found == reports_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Report& each) {
    return each.asker == asker && each.holder == holder && now - each.since < kLifetime;
  });
}

void FailureReports::forget(const std::string& node) {
  eraseIf([&](const Report& each) { return each.asker == node || each.holder == node; });
}

}  // namespace hearth
