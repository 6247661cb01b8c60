// Processor time of this process, for programs that measure.
#pragma once

#include <sys/resource.h>

namespace hearth {

// User and system time of this process, in seconds.
inline double processorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace hearth
