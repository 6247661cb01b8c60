// Whether a reactor that has nothing to do looks for what comes before it sleeps. Waking a thread,
// and the core that sleeps with the thread, takes tens of microseconds; a look burns processor time
// instead. So a reactor looks only where something is expected, for kLooksFor at most. The reactor
// stops looking for a while when kMisses looks in a row were in vain, or when another thread wanted
// the core. On the reactor's thread; counts() is for any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/clock.h"

namespace hearth {

class IdleLook {
 public:
  // More than an exchange takes in which the other side has to be woken: else two sides, both of
  // which look, miss each other.
  static constexpr Clock::duration kLooksFor = std::chrono::microseconds(100);
  static constexpr int kMisses = 4;
  // Expectations that are passed over before the next look: twice as many each time.
  static constexpr std::uint32_t kFirstPause = 16, kLongestPause = 1024;

  enum class End : std::uint8_t { kCame, kInVain, kCoreWanted };
  // Since the start.
  struct Counts {
    std::uint64_t looks = 0;
    std::uint64_t inVain = 0;  // looks that ended otherwise than with kCame
    std::uint64_t sleeps = 0;
  };

  void expect() { expected_ = true; }
  // Something is expected, and looks are not paused. A pause uses the expectation up.
  [[nodiscard]] bool isWanted() {
    if (!expected_ || pause_ == 0) return expected_;
    --pause_;
    return expected_ = false;
  }
  // A look for what is expected; ended() follows.
  void begin() { expected_ = false; }
  void ended(End end) {
    add(looks_);
    if (end == End::kCame) {
      misses_ = 0;
      nextPause_ = kFirstPause;
      return;
    }
    add(inVain_);
    if (++misses_ < kMisses && end == End::kInVain) return;
    pause_ = nextPause_;
    nextPause_ = std::min(2 * nextPause_, kLongestPause);
    misses_ = kMisses - 1;  // a single look decides whether the next pause follows
  }
  void slept() { add(sleeps_); }
  [[nodiscard]] Counts counts() const { return {looks_.load(), inVain_.load(), sleeps_.load()}; }

 private:
  // One thread adds.
  static void add(std::atomic<std::uint64_t>& count) {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  bool expected_ = false;
  int misses_ = 0;
  std::uint32_t pause_ = 0, nextPause_ = kFirstPause;
  std::atomic<std::uint64_t> looks_{0}, inVain_{0}, sleeps_{0};
};

}  // namespace hearth
