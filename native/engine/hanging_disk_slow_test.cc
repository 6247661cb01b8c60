// Times the waits of readers beside a disk that hangs.
#include <cstdio>

#include "engine/testing_hanging_disk.h"

namespace hearth {
namespace {

using Seconds = std::chrono::duration<double>;

class HangingDiskTimes : public testing_cluster::HangingDiskTest {};

TEST_P(HangingDiskTimes, NoReadOrOpenWaitsLong) {
  faults->hang({GetParam()});
  Clock::duration longest = readAll();
  // Now most files are elsewhere only, and new ones are written beside the disk that hangs.
  ASSERT_NO_FATAL_FAILURE(warm(agent, more));
  for (const std::uint32_t entry : filesOf(*dataset->manifest))
    (void)agent.await(cache().evict(dataset->manifest->entry(entry).key));
  longest = std::max(longest, readAll());
  // And memory has nothing.
  forgetMemory(agent);
  longest = std::max(longest, readAll());
  faults->resume();
  std::printf("the longest open or read took %.2f s\n", Seconds(longest).count());
  EXPECT_LE(Seconds(longest).count(), 2.5);
}

INSTANTIATE_TEST_SUITE_P(Calls, HangingDiskTimes,
                         testing::ValuesIn(testing_cluster::allDiskCalls()),
                         testing_cluster::nameOfCall);

}  // namespace
}  // namespace hearth
