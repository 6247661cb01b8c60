// Runs probes in child processes, so that a driver that crashes, exits, prints or hangs cannot
// touch the caller.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "probe/probe.h"

namespace hearth {

// Reports to the parent what is tried next ("cuInit"); shown when the child is lost there.
using Stage = std::function<void(const std::string& what)>;

struct ContainedTask {
  std::string name;  // of the row that stands for the task when its child is lost
  std::function<std::vector<Probe>(const Stage&)> run;
};

// All tasks at once, each in a child that is its own process group, with standard streams on
// /dev/null, without core dumps, and killed when the parent dies. Rows come in the order of the
// tasks. A child that crashes, exits early or passes the deadline yields one row of status
// kMissing, which names the stage. Returns at most half a second after the deadline, even when a
// child is in uninterruptible sleep and cannot be killed. The caller must have one thread only.
[[nodiscard]] std::vector<Probe> runContained(const std::vector<ContainedTask>& tasks,
                                              std::chrono::milliseconds deadline);

}  // namespace hearth
