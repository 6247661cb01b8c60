#include "transport/handshake_limiter.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::shared_ptr<HandshakeLimiter::Slot> HandshakeLimiter::enter(const std::string& source,
                                                                TimePoint now,
                                                                std::function<void()> end) {
  expireFailures(now);
  const auto own = bySource_.find(source);
  const std::size_t waiting = own == bySource_.end() ? 0 : own->second.size();
  const auto failed = failuresOf_.find(source);
  const std::size_t failures = failed == failuresOf_.end() ? 0 : failed->second;
  if (waiting + failures >= slotsPerSource_) {
    if (waiting == 0) return nullptr;
    revokeOldest(own->second);
  } else if (taken_ >= slots_) {
    const auto most =
        std::max_element(bySource_.begin(), bySource_.end(), [](const auto& a, const auto& b) {
          if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
          return a.second.begin()->first > b.second.begin()->first;
        });
    revokeOldest(most->second);
  }
  const std::uint64_t number = ++lastNumber_;
  std::shared_ptr<Slot> slot(new Slot(*this, source, number, std::move(end)));
  bySource_[source].emplace(number, slot.get());
  ++taken_;
  return slot;
}

void HandshakeLimiter::revokeOldest(Slots& slots) {
  Slot& oldest = *slots.begin()->second;
  const std::function<void()> end = std::move(oldest.end_);
  oldest.limiter_.leave(oldest);  // at once, as the connection may take a moment to end
  end();
}

void HandshakeLimiter::leave(Slot& slot) {
  if (!std::exchange(slot.counted_, false)) return;
  --taken_;
  const auto own = bySource_.find(slot.source_);
  own->second.erase(slot.number_);
  if (own->second.empty()) bySource_.erase(own);
}

void HandshakeLimiter::fail(Slot& slot, TimePoint now) {
  leave(slot);
  failures_.push_back({.source = slot.source_, .until = now + kPenalty});
  ++failuresOf_[slot.source_];
  expireFailures(now);
}

void HandshakeLimiter::expireFailures(TimePoint now) {
  while (!failures_.empty() && (failures_.size() > kFailures || failures_.front().until <= now)) {
    const auto of = failuresOf_.find(failures_.front().source);
    if (--of->second == 0) failuresOf_.erase(of);
    failures_.pop_front();
  }
}

}  // namespace hearth
