#include "verbs/testing/fault_schedule.h"

namespace hearth::testing_verbs {
namespace {

TEST(FaultSchedulesSlowTest, AHundredThousand) {
  for (std::uint64_t seed = 1'000; seed < 101'000; ++seed) {
    FaultSchedule(seed).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hearth::testing_verbs
