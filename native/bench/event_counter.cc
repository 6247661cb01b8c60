#include "bench/event_counter.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace hearth::bench {
namespace {

constexpr char kSystemCallNumber[] = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";

}  // namespace

Result<EventCounter> EventCounter::instructions() {
  return open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, true);
}

Result<EventCounter> EventCounter::systemCalls() {
  std::uint64_t number = 0;
  if (!(std::ifstream(kSystemCallNumber) >> number))
    return Error{ErrorCode::kNotFound, std::string(kSystemCallNumber) +
                                           " cannot be read: mount tracefs at /sys/kernel/tracing"};
  return open(PERF_TYPE_TRACEPOINT, number, false);
}

Result<EventCounter> EventCounter::open(std::uint32_t type, std::uint64_t event, bool userOnly) {
  perf_event_attr about{};
  about.size = sizeof about;
  about.type = type;
  about.config = event;
  about.inherit = 1;
  about.exclude_kernel = userOnly ? 1 : 0;
  about.exclude_hv = userOnly ? 1 : 0;
  // Of the calling thread, on any processor.
  const long made = syscall(SYS_perf_event_open, &about, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (made >= 0) return EventCounter(OwnedFd(static_cast<int>(made)));
  if (errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV)
    return Error{ErrorCode::kUnsupported, "this machine does not count the event"};
  return errnoError(errno, "perf_event_open");
}

std::uint64_t EventCounter::count() const {
  std::uint64_t events = 0;
  if (::read(counter_.get(), &events, sizeof events) != sizeof events) {
    std::perror("a performance counter cannot be read");
    std::exit(1);
  }
  return events;
}

}  // namespace hearth::bench
