#include "cache/retraction_queue.h"

namespace hearth {

void RetractionQueue::add(PendingRetraction retraction) {
  const std::lock_guard guard(mutex_);
  const Place place(retraction.entry.get(), retraction.chunk);
  waiting_.emplace(place, std::move(retraction.entry));
}

void RetractionQueue::restore(const std::vector<PendingRetraction>& retractions) {
  for (const PendingRetraction& retraction : retractions) add(retraction);
}

void RetractionQueue::forget(std::span<const std::shared_ptr<CacheEntry>> entries) {
  const std::lock_guard guard(mutex_);
  for (const auto& entry : entries) {
    waiting_.erase(waiting_.lower_bound({entry.get(), 0}),
                   waiting_.upper_bound({entry.get(), ~std::uint32_t{0}}));
  }
}

std::vector<PendingRetraction> RetractionQueue::take() {
  const std::lock_guard guard(mutex_);
  std::vector<PendingRetraction> taken;
  taken.reserve(waiting_.size());
  for (auto& [place, entry] : waiting_) taken.push_back({std::move(entry), place.second});
  waiting_.clear();
  return taken;
}

bool RetractionQueue::empty() const {
  const std::lock_guard guard(mutex_);
  return waiting_.empty();
}

}  // namespace hearth
