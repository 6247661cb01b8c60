// Times the chunks that a reader gets beside a holder whose disk hangs.
#include <cstdio>

#include "engine/testing_hanging_peer.h"

namespace hearth {
namespace {

using Seconds = std::chrono::duration<double>;

class HangingPeerTimes : public testing_cluster::HangingPeerTest {};

TEST_F(HangingPeerTimes, FewChunksWaitAndNoneForLong) {
  double longest = 0, longestOfOthers = 0;
  int waits = 0;
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) {
    const Clock::time_point began = Clock::now();
    const int before = faults->waits();
    ASSERT_NO_FATAL_FAILURE(readFrom(chunk));
    const double took = Seconds(Clock::now() - began).count();
    longest = std::max(longest, took);
    if (faults->waits() != before) {
      ++waits;
    } else {
      longestOfOthers = std::max(longestOfOthers, took);
    }
  }
  std::printf("%d chunks waited, the longest took %.3f s; of the others %.3f s\n", waits, longest,
              longestOfOthers);
  EXPECT_GE(waits, 1) << "nobody has asked it";
  EXPECT_LE(longest, 0.5);
  EXPECT_LE(waits, 3);
  EXPECT_LE(longestOfOthers, 0.2);
  EXPECT_EQ(originBytes(), 0u);
}

}  // namespace
}  // namespace hearth
