// Whether reads of a dataset wait for an origin that is away, since when and why. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace hearth {

class OriginAbsence {
 public:
  static constexpr std::chrono::milliseconds kDefaultBound = std::chrono::minutes(5);

  // How long each read waits for an origin that is away; zero: not at all.
  void setBound(std::chrono::milliseconds bound) { bound_.store(bound.count()); }
  [[nodiscard]] Clock::duration bound() const { return std::chrono::milliseconds(bound_.load()); }

  // A read begins to wait, after the origin's error `why`, and ends to do so. True: it is the first
  // to begin, or the last to end.
  [[nodiscard]] bool begin(const Error& why);
  [[nodiscard]] bool end();

  // A sentence for people, which stays the same while the origin is away; empty: no read waits.
  [[nodiscard]] std::string words() const;

 private:
  std::atomic<std::chrono::milliseconds::rep> bound_{kDefaultBound.count()};
  mutable std::mutex mutex_;  // guards all below
  std::size_t waiting_ = 0;
  std::string since_;
  std::string why_;
};

}  // namespace hearth
