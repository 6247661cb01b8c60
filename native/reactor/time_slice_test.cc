#include "reactor/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

namespace hearth {
namespace {

struct Schedule {
  std::uint32_t policy = 0;
  std::int32_t niceness = 0;
  std::uint64_t sliceNs = 0;
};

// sched_getattr(2) of the calling thread.
Schedule scheduleNow() {
  std::array<std::uint8_t, 48> bytes{};
  EXPECT_EQ(::syscall(SYS_sched_getattr, 0, bytes.data(), bytes.size(), 0), 0);
  Schedule now;
  std::memcpy(&now.policy, bytes.data() + 4, 4);
  std::memcpy(&now.niceness, bytes.data() + 16, 4);
  std::memcpy(&now.sliceNs, bytes.data() + 24, 8);
  return now;
}

TEST(TimeSlice, IsShortenedForTheThreadAlone) {
  const Schedule before = scheduleNow();
  Schedule shortened;
  std::thread([&] {
    shortenTimeSlice();
    shortened = scheduleNow();
  }).join();
  EXPECT_EQ(shortened.policy, before.policy);
  EXPECT_EQ(shortened.niceness, before.niceness);
  const Schedule after = scheduleNow();
  EXPECT_EQ(after.sliceNs, before.sliceNs);
  if (before.sliceNs == 0) GTEST_SKIP() << "this kernel has no slices of threads; Linux 6.12 has";
  EXPECT_EQ(shortened.sliceNs, 100'000U);
}

}  // namespace
}  // namespace hearth
