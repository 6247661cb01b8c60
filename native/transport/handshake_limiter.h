// Bounds the connections that have not yet proved who they are: in all, and of one source, so that
// one host cannot keep the others out. When there is no slot the oldest connection loses its own:
// an honest dialler says at once what it has to say. A connection that failed its proof loses its
// slot, but counts against its source for a while, so that guessing is slow. So a dialler can
// always get a slot, unless all connections of its source have failed. No clock of its own; on one
// thread.
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

  // The slot of one unauthenticated connection. The destructor releases it, and must run before the
  // limiter, or anything that `end` uses, is destroyed.
  class Slot {
   public:
    ~Slot() { limiter_.leave(*this); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    // Releases the slot now: the proof has failed.
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

  // `end` ends the connection; it is called at most once, when a newer connection needs the slot,
  // and must not call enter(). If the source has too many connections, its oldest one loses its
  // slot; else the oldest one of the source that has most, and of several such sources the oldest
  // of all. Null: the source has as many failed proofs as it may have slots.
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
