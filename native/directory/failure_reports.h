// Which agents could lately not get which chunk of one key from which of its holders. A report of
// one about another holds for itself alone: its own disk, its own link or a partition between the
// two may be the cause, and all others read on, however many report it. Pure: not thread-safe, no
// clock of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace hearth {

class FailureReports {
 public:
  using TimePoint = Clock::time_point;
  // How long a holder is not named to an agent that could not read from it. Longer than that agent
  // needs to come by the chunk elsewhere; then the holder is tried once more.
  static constexpr std::chrono::seconds kLifetime{10};
  // Different agents that must report the same before the holder is asked what it holds.
  static constexpr std::size_t kMinReporters = 2;

  // True when enough agents, this one among them, report the same failure now.
  [[nodiscard]] bool note(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                          TimePoint now);
  [[nodiscard]] bool holds(std::uint32_t chunk, const std::string& asker, const std::string& holder,
                           TimePoint now) const;
  // An agent left, or holds nothing any more: what it reported, and what was reported of it.
  void forget(const std::string& node);

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Report {
    std::string asker;
    std::string holder;
    TimePoint since;
  };
  template <class Condition>
  void eraseIf(Condition condition);

  std::map<std::uint32_t, std::vector<Report>> reports_;  // by chunk; none is empty
  std::size_t size_ = 0;
  std::size_t sweepAt_ = 1024;
};

}  // namespace hearth
