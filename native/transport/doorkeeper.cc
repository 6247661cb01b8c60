#include "transport/doorkeeper.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::shared_ptr<Doorkeeper::Place> Doorkeeper::enter(const std::string& source, TimePoint now,
                                                     std::function<void()> end) {
  forgive(now);
  const auto own = bySource_.find(source);
  const std::size_t waiting = own == bySource_.end() ? 0 : own->second.size();
  const auto failed = failuresOf_.find(source);
  const std::size_t failures = failed == failuresOf_.end() ? 0 : failed->second;
  if (waiting + failures >= placesPerSource_) {
    if (waiting == 0) return nullptr;
    takeOldest(own->second);
  } else if (taken_ >= places_) {
    const auto most =
        std::max_element(bySource_.begin(), bySource_.end(), [](const auto& a, const auto& b) {
          if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
          return a.second.begin()->first > b.second.begin()->first;
        });
    takeOldest(most->second);
  }
  const std::uint64_t number = ++lastNumber_;
  std::shared_ptr<Place> place(new Place(*this, source, number, std::move(end)));
  bySource_[source].emplace(number, place.get());
  ++taken_;
  return place;
}

void Doorkeeper::takeOldest(Places& places) {
  Place& oldest = *places.begin()->second;
  const std::function<void()> end = std::move(oldest.end_);
  oldest.keeper_.leave(oldest);  // at once: what is ended may take a moment
  end();
}

void Doorkeeper::leave(Place& place) {
  if (!std::exchange(place.counted_, false)) return;
  --taken_;
  const auto own = bySource_.find(place.source_);
  own->second.erase(place.number_);
  if (own->second.empty()) bySource_.erase(own);
}

void Doorkeeper::fail(Place& place, TimePoint now) {
  leave(place);
  failures_.push_back({.source = place.source_, .until = now + kPenalty});
  ++failuresOf_[place.source_];
  forgive(now);
}

void Doorkeeper::forgive(TimePoint now) {
  while (!failures_.empty() && (failures_.size() > kFailures || failures_.front().until <= now)) {
    const auto of = failuresOf_.find(failures_.front().source);
    if (--of->second == 0) failuresOf_.erase(of);
    failures_.pop_front();
  }
}

}  // namespace hearth
