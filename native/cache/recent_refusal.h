// Recent refusals of a cache directory to store, for want of room or because its disk failed.
// Asking again for every chunk would look through the whole cache each time, so callers that can do
// without room ask only once in a while. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "reactor/reactor.h"

namespace hearth {

class RecentRefusal {
 public:
  static constexpr Clock::duration kPause = std::chrono::milliseconds(500);
  static constexpr Clock::duration kStale = std::chrono::seconds(5);

  // `bytes` were not stored. `full`: there was no room for them; else the disk failed.
  void refused(std::uint64_t bytes, bool full, Clock::time_point now) {
    bytes_.store(bytes, std::memory_order_relaxed);
    if (fit_.load(std::memory_order_relaxed) >= bytes) fit_.store(bytes - 1);
    full_.store(full, std::memory_order_relaxed);
    retryAt_.store((now + kPause).time_since_epoch().count(), std::memory_order_release);
  }
  // `bytes` were stored: the refusal ends, or stands for more than that alone. So one refused large
  // chunk does not keep small files out for as long as nothing large is wanted.
  void stored(std::uint64_t bytes) {
    if (!applies(bytes)) return;
    if (bytes >= bytes_.load(std::memory_order_relaxed)) {
      fit_.store(0);
      retryAt_.store(0);
    } else {
      fit_.store(bytes);
    }
  }
  // For a chunk of `bytes`.
  [[nodiscard]] bool applies(std::uint64_t bytes) const {
    return retryAt_.load(std::memory_order_acquire) != 0 &&
           bytes > fit_.load(std::memory_order_relaxed);
  }
  // Nobody has refused or stored for so long that the disk may have room again.
  [[nodiscard]] bool isStale(Clock::time_point now) const {
    const Clock::time_point due(Clock::duration(retryAt_.load(std::memory_order_acquire)));
    return now > due + kStale;
  }
  [[nodiscard]] bool outOfSpace() const { return full_.load(std::memory_order_relaxed); }
  // True for one caller in each kPause: it tries again.
  [[nodiscard]] bool retry(Clock::time_point now) {
    Clock::rep due = retryAt_.load(std::memory_order_acquire);
    const Clock::rep ticks = now.time_since_epoch().count();
    return due == 0 || (due <= ticks && retryAt_.compare_exchange_strong(
                                            due, (now + kPause).time_since_epoch().count()));
  }

 private:
  std::atomic<Clock::rep> retryAt_{0};  // 0: nothing is refused
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> fit_{0};  // so many were stored since: what is no more is not refused
  std::atomic<bool> full_{false};
};

}  // namespace hearth
