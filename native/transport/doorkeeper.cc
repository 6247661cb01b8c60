#include "transport/doorkeeper.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::shared_ptr<Doorkeeper::Place> Doorkeeper::enter(const std::string& source,
                                                     std::function<void()> end) {
  const auto own = bySource_.find(source);
  if (own != bySource_.end() && own->second.size() >= placesPerSource_) {
    if (!takeAway(own->second)) return nullptr;
  } else if (taken_ >= places_) {
    const auto most = std::max_element(
        bySource_.begin(), bySource_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (!takeAway(most->second)) return nullptr;
  }
  const std::uint64_t number = ++lastNumber_;
  std::shared_ptr<Place> place(new Place(*this, source, number, std::move(end)));
  bySource_[source].emplace(number, place.get());
  ++taken_;
  return place;
}

bool Doorkeeper::takeAway(Places& places) {
  for (const auto& [number, place] : places) {
    if (!place->end_) continue;
    const std::function<void()> end = std::exchange(place->end_, nullptr);
    leave(*place);  // at once: what is ended may take a moment
    end();
    return true;
  }
  return false;
}

void Doorkeeper::leave(Place& place) {
  if (!std::exchange(place.counted_, false)) return;
  --taken_;
  const auto own = bySource_.find(place.source_);
  own->second.erase(place.number_);
  if (own->second.empty()) bySource_.erase(own);
}

}  // namespace hearth
