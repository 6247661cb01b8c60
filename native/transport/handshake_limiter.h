// Bounds the connections that have not yet proved who they are: in all, and of one source, so that
// one host cannot keep the others out. When there is no slot the oldest connection loses its own:
// who is honest says at once what it has to say. One that failed its proof has no slot any more,
// but counts as one of its source for a while, so that guessing is slow. Thus a slot can always be
// got, except by a source whose connections have all failed. No clock of its own; on one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"

namespace hearth {

class HandshakeLimiter {
 public:
  using TimePoint = Clock::time_point;
  // How long a failed proof counts.
  static constexpr std::chrono::seconds kPenalty{1};
  // Failed proofs of all sources that are remembered; the oldest is forgotten first.
  static constexpr std::size_t kFailures = 4096;

  HandshakeLimiter(std::size_t slots, std::size_t slotsPerSource)
      : slots_(slots), slotsPerSource_(slotsPerSource) {}

  // One slot of an unauthenticated connection, released with the object, which must be destroyed
  // before the limiter, and before what `end` uses.
  class Slot {
   public:
    ~Slot() { limiter_.leave(*this); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    // Releases it now: the proof has failed.
    void fail(TimePoint now) { limiter_.fail(*this, now); }
    [[nodiscard]] bool revoked() const { return !counted_; }

   private:
    friend HandshakeLimiter;
    Slot(HandshakeLimiter& limiter, std::string source, std::uint64_t number,
         std::function<void()> end)
        : limiter_(limiter), source_(std::move(source)), number_(number), end_(std::move(end)) {}

    HandshakeLimiter& limiter_;
    std::string source_;
    std::uint64_t number_;
    std::function<void()> end_;
    bool counted_ = true;
  };

  // `end` ends the connection: it is called, at most once, when its slot is needed for a newer one,
  // and must not enter. The slot revoked is that of the oldest connection of the same source when
  // it has too many, else the oldest of the source that has most, of several such the oldest of
  // all. Null when the source has as many failed proofs as it may have slots.
  [[nodiscard]] std::shared_ptr<Slot> enter(const std::string& source, TimePoint now,
                                            std::function<void()> end);
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  using Slots = std::map<std::uint64_t, Slot*>;  // of one source, oldest first

  struct Failure {
    std::string source;
    TimePoint until;
  };

  static void revokeOldest(Slots& slots);
  void leave(Slot& slot);
  void fail(Slot& slot, TimePoint now);
  void expireFailures(TimePoint now);

  std::size_t slots_, slotsPerSource_;
  std::size_t taken_ = 0;
  std::uint64_t lastNumber_ = 0;
  std::map<std::string, Slots> bySource_;          // none is empty
  std::deque<Failure> failures_;                   // oldest first
  std::map<std::string, std::size_t> failuresOf_;  // by source; none is 0
};

}  // namespace hearth
