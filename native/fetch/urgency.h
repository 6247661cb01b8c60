// How urgently a piece of work is wanted: in the background, or by a reader who waits for it. Work
// that began in the background is raised when a reader joins it, and whatever it waits for just
// then (a queue of background work, a rate) hears of that. Used on one shard's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <utility>

namespace hearth {

enum class Priority : std::uint8_t { kDemand, kBackground };

class Urgency {
 public:
  explicit Urgency(Priority priority) : priority_(priority) {}
  Urgency(const Urgency&) = delete;
  Urgency& operator=(const Urgency&) = delete;

  [[nodiscard]] Priority priority() const { return priority_; }
  [[nodiscard]] bool demand() const { return priority_ == Priority::kDemand; }
  // A reader waits from now on; there is no way back.
  void raise() {
    if (demand()) return;
    priority_ = Priority::kDemand;
    for (const Watch* const watch : watches_) watch->raised_();
  }

  // Calls `raised` when that happens, while the object lives. It may schedule coroutines, but
  // neither resume them nor end a watch.
  class Watch {
   public:
    // `urgency` must remain live while this object is used.
    Watch(Urgency& urgency, std::function<void()> raised)
        : urgency_(urgency),
          raised_(std::move(raised)),
          place_(urgency.watches_.insert(urgency.watches_.end(), this)) {}
    ~Watch() { urgency_.watches_.erase(place_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend Urgency;
    Urgency& urgency_;
    const std::function<void()> raised_;
    const std::list<Watch*>::iterator place_;
  };

 private:
  Priority priority_;
  std::list<Watch*> watches_;
};

}  // namespace hearth
