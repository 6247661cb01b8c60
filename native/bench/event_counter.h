// Events of threads as the kernel's performance counters count them (perf_event_open(2)).
#pragma once

#include <cstdint>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth::bench {

// Counts what the thread that made it does, and all threads that it, or such a thread, starts
// afterwards; others are not counted. Counting costs each event some nanoseconds.
class EventCounter {
 public:
  // Instructions in user space. kUnsupported where the processor does not count for us, as in most
  // virtual machines.
  [[nodiscard]] static Result<EventCounter> instructions();
  // System calls, when they begin (the tracepoint raw_syscalls:sys_enter). kNotFound where tracefs
  // is not mounted at /sys/kernel/tracing, kPermissionDenied unless as root.
  [[nodiscard]] static Result<EventCounter> systemCalls();

  // So far. Any thread; ends the program when the kernel does not say.
  [[nodiscard]] std::uint64_t count() const;

 private:
  explicit EventCounter(OwnedFd counter) : counter_(std::move(counter)) {}
  static Result<EventCounter> open(std::uint32_t type, std::uint64_t event, bool userOnly);

  OwnedFd counter_;
};

}  // namespace hearth::bench
