// How urgent a piece of work is: in the background, or wanted by a reader who waits for it. A
// reader that joins background work raises it, and the queue or rate that the work waits in hears
// of that. Used on one shard's thread only.
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

  // Calls `raised` when the urgency is raised, while this object lives. `raised` may schedule
  // coroutines, but neither resume them nor end a watch.
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
