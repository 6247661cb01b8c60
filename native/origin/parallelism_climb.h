// How many requests a host is asked at a time, found by measurement. Pure: not thread-safe.
//
// It starts with all that the client has: loads are short, and object stores give more the more
// they are asked at a time. While all of them are in use, goodput (bytes of bodies a second) is
// measured window by window, and steps of a quarter are tried in turn, less and less often while
// none helps: hill climbing. One down stays when goodput does. One up stays when it brings a
// quarter of its share, the part by which BBR's startup knows a pipe that is not full yet (draft-
// cardwell-iccrg-bbr-congestion-control, 4.3.1.2), and is taken back otherwise. A host that
// throttles or breaks connections off halves it, once a round of requests, and it grows again
// second by second: additive increase, multiplicative decrease (Chiu, Jain 1989), as Netflix's
// AIMDLimit.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace hearth {

class ParallelismClimb {
 public:
  // Never less, unless the limit is.
  static constexpr std::size_t kFloor = 2;
  // A change of the number has so long to take effect, and is measured for as long.
  static constexpr Clock::duration kMinWindow = std::chrono::milliseconds(250);
  static constexpr Clock::duration kMaxWindow = std::chrono::seconds(2);

  // Never more than `limit`, which is at least 1.
  explicit ParallelismClimb(std::size_t limit);

  [[nodiscard]] std::size_t parallelism() const { return parallelism_; }
  // For hosts that are far away: windows are so long, within their bounds.
  void setWindow(Clock::duration window) { window_ = std::clamp(window, kMinWindow, kMaxWindow); }
  // Notes if all permits are in use. Only then does goodput say something about their number; a
  // permit free for a moment, between two requests, does not count.
  void saturated(bool yes, Clock::time_point now);
  // So many bytes of bodies came. May change parallelism().
  void came(std::uint64_t bytes, Clock::time_point now);
  // It answered a request that began at `began` that it is asked too often. May change
  // parallelism(), but only once for the requests that had begun by then.
  void throttled(Clock::time_point began, Clock::time_point now);

 private:
  enum class Phase { kSteady, kUp, kDown };

  [[nodiscard]] bool free(Clock::time_point now) const;
  void restartWindow(Clock::time_point now);
  void judge(double goodput);
  void judgeSteady(double goodput);
  void probe();
  void takeBack();
  void settle(std::size_t parallelism, int hold);
  void recover(Clock::time_point now);

  const std::size_t limit_, floor_;
  std::size_t parallelism_;
  Phase phase_ = Phase::kSteady;
  bool downNext_ = true;

  // When one was not in use any more; empty: all are.
  std::optional<Clock::time_point> freeSince_ = Clock::time_point::min();
  bool settling_ = true;  // the window is one in which the last change takes effect
  Clock::duration window_ = kMinWindow;
  Clock::time_point windowBegin_{};
  std::uint64_t windowBytes_ = 0;

  // Of windows at the number before the probe that runs.
  double goodput_ = 0;
  int windows_ = 0;
  int hold_;        // so many, then something is tried
  int failed_ = 0;  // what was tried, in a row
  std::size_t before_;

  // The number from which steps down began, and its goodput: steps together must keep that.
  std::size_t peak_ = 0;  // 0: none
  double peakGoodput_ = 0;

  std::optional<Clock::time_point> decreasedAt_;
  std::optional<Clock::time_point> increasedAt_;  // or decreased
  std::size_t recoverTo_ = 0;                     // 0: it has
};

}  // namespace hearth
