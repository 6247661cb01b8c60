// How other agents have answered this shard lately: how long a chunk may take before another holder
// is asked for it, and which agents are left out while others hold the same. An agent whose disk
// hangs answers probes and questions about what it holds as ever; only its chunks do not come. So
// failures count by agent, and only a chunk that comes ends them. On the shard's thread.
#pragma once

#include <map>
#include <string>

#include "base/clock.h"

namespace hearth {

class PeerStandings {
 public:
  using TimePoint = Clock::time_point;
  // Until chunks have come, and as the least: far more than a disk or a fast network takes.
  static constexpr Clock::duration kShortest = std::chrono::milliseconds(400);
  // Of the usual time, so that one agent is seldom slow for being asked much.
  static constexpr int kTimesUsual = 4;
  // Late chunks in a row after which an agent is left out.
  static constexpr int kLate = 3;
  static constexpr Clock::duration kLeftOut = std::chrono::seconds(10);

  // How long to wait for a chunk before another holder is asked, too.
  [[nodiscard]] Clock::duration patience() const;
  // The agent has not given a chunk within patience().
  void late(const std::string& node, TimePoint now);
  // The agent has given a chunk, which took so long.
  void gave(const std::string& node, Clock::duration took, TimePoint now);
  // Others are to be asked instead: they have given chunks while this agent gave none. Once in each
  // kLeftOut false: one chunk tries the agent again.
  [[nodiscard]] bool leavesOut(const std::string& node, TimePoint now);

 private:
  struct Standing {
    int late = 0;  // in a row
    TimePoint since, until;
  };
  std::map<std::string, Standing> late_;  // of agents that gave nothing since they were late
  Clock::duration usual_{};
  TimePoint gaveAt_{};  // by any agent
};

}  // namespace hearth
