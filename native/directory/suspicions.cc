#include "directory/suspicions.h"

#include <algorithm>

namespace hearth {

template <class Condition>
void Suspicions::eraseIf(Condition condition) {
  for (auto entry = suspicions_.begin(); entry != suspicions_.end();) {
    size_ -= std::erase_if(entry->second, condition);
    entry = entry->second.empty() ? suspicions_.erase(entry) : std::next(entry);
  }
}

bool Suspicions::note(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                      TimePoint now) {
  if (size_ >= sweepAt_) {
    eraseIf([&](const Suspicion& each) { return now - each.since >= kLasting; });
    sweepAt_ = std::max<std::size_t>(1024, 2 * size_);
  }
  std::vector<Suspicion>& ofChunk = suspicions_[chunk];
  size_ -= std::erase_if(ofChunk, [&](const Suspicion& each) {
    return now - each.since >= kLasting || (each.asker == asker && each.holder == holder);
  });
  ofChunk.push_back({.asker = asker, .holder = holder, .since = now});
  ++size_;
  const auto saying = std::count_if(ofChunk.begin(), ofChunk.end(),
                                    [&](const Suspicion& each) { return each.holder == holder; });
  return static_cast<std::size_t>(saying) >= kAgreeing;
}

bool Suspicions::holds(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                       TimePoint now) const {
  const auto found = suspicions_.find(chunk);
  if (found == suspicions_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Suspicion& each) {
    return each.asker == asker && each.holder == holder && now - each.since < kLasting;
  });
}

void Suspicions::forget(const std::string& node) {
  eraseIf([&](const Suspicion& each) { return each.asker == node || each.holder == node; });
}

}  // namespace hearth
