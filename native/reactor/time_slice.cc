#include "reactor/time_slice.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hearth {
namespace {

constexpr std::uint64_t kShortestSliceNs = 100'000;

// The first version of the kernel's structure; libc has none.
struct ScheduleAttributes {
  std::uint32_t size = sizeof(ScheduleAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t niceness = 0;
  std::uint32_t priority = 0;
  std::uint64_t sliceNs = 0;
  std::uint64_t deadlineNs = 0;
  std::uint64_t periodNs = 0;
};

}  // namespace

void shortenTimeSlice() {
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  errno = 0;
  const int niceness = getpriority(PRIO_PROCESS, 0);  // on Linux the thread's
  if (errno != 0) return;
  const ScheduleAttributes wanted{.niceness = niceness, .sliceNs = kShortestSliceNs};
  // A sandbox may refuse it; the thread then waits as others do.
  (void)::syscall(SYS_sched_setattr, 0, &wanted, 0);
}

}  // namespace hearth
