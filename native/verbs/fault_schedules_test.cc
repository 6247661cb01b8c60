// Whatever fails and whenever, a transfer settles once, succeeds only when its own bytes are there,
// and keeps its memory for as long as the device may touch it.
#include "verbs/testing/fault_schedule.h"

namespace hearth::testing_verbs {
namespace {

TEST(FaultSchedulesTest, AThousand) {
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    FaultSchedule(seed).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hearth::testing_verbs
