#include "cache/eviction_candidates.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "cache/cache_core.h"

namespace hearth {
namespace {

constexpr auto kLookAgain = std::chrono::seconds(1);

}  // namespace

std::int64_t EvictionCandidates::timeOf(const CacheEntry& entry, std::int64_t nowMs) const {
  return order_ == Order::kAsCopies && isWanted(entry, nowMs) ? entry.ownUseMs()
                                                              : entry.lastUsedMs();
}

void EvictionCandidates::noteMade(const std::shared_ptr<CacheEntry>& entry) {
  const std::lock_guard lock(mutex_);
  if (noting_ && made_.size() < kFound) made_.push_back(entry);
}

void EvictionCandidates::begin() {
  const std::lock_guard lock(mutex_);
  if (found_.empty()) made_.clear();  // the next look sees them
  const auto before = static_cast<std::ptrdiff_t>(found_.size());
  std::erase_if(made_, [this](const std::shared_ptr<CacheEntry>& entry) {
    const std::optional<KeyIndex::Usage> usage = index_.usage(entry);
    if (usage && usage->inUse) return false;  // it goes among the others later
    if (!usage || usage->pinned || !eligible(*entry)) return true;
    const std::int64_t time = timeOf(*entry, lookedMs_);
    if (time < foundUntilMs_) found_.push_back({time, entry});
    return true;
  });
  const auto fresh = found_.begin() + before;
  if (fresh == found_.end()) return;
  std::sort(fresh, found_.end(), std::greater());
  std::inplace_merge(found_.begin(), fresh, found_.end(), std::greater());
  // One that the look has seen, too.
  const auto same = [](const Candidate& a, const Candidate& b) { return a.entry == b.entry; };
  found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
  if (found_.size() <= kFound) return;
  found_.erase(found_.begin(), found_.end() - static_cast<std::ptrdiff_t>(kFound));
  foundUntilMs_ = found_.front().time;
}

std::shared_ptr<CacheEntry> EvictionCandidates::next() {
  while (!found_.empty()) {
    const Candidate candidate = std::move(found_.back());
    found_.pop_back();
    // One that was used since stands elsewhere in the order: the next look finds it.
    if (timeOf(*candidate.entry, lookedMs_) == candidate.time) return candidate.entry;
  }
  return nullptr;
}

bool EvictionCandidates::eligible(const CacheEntry& entry) const {
  if (&entry.directory != &directory_ || entry.charged == 0) return false;
  if (order_ == Order::kByUse || !isWanted(entry, lookedMs_)) return true;
  const Clock::time_point now = Clock::now();
  return now >= entry.lastCopyUntil.load() && now >= entry.unconfirmedUntil.load();
}

bool EvictionCandidates::look() {
  if (Clock::now() < nextLook_) return false;
  {
    const std::lock_guard lock(mutex_);
    made_.clear();
    noting_ = true;
  }
  ++looks_;
  lookedMs_ = wallClockMs();
  std::vector<Candidate> all;
  for (KeyIndex::Usage& usage : index_.usages()) {
    if (usage.inUse || usage.pinned || !eligible(*usage.entry)) continue;
    all.push_back({timeOf(*usage.entry, lookedMs_), std::move(usage.entry)});
  }
  const std::size_t count = std::min(all.size(), kFound);
  const auto firstToGo = [](const Candidate& a, const Candidate& b) { return b > a; };
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    firstToGo);
  found_.clear();
  for (std::size_t i = count; i > 0; --i) found_.push_back(std::move(all[i - 1]));
  foundUntilMs_ =
      count < all.size() ? found_.front().time : std::numeric_limits<std::int64_t>::max();
  return !found_.empty();
}

void EvictionCandidates::lookLater() {
  found_.clear();
  const Clock::time_point now = Clock::now();
  if (now >= nextLook_) nextLook_ = now + kLookAgain;
}

}  // namespace hearth
