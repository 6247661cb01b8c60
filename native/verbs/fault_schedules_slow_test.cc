#include "verbs/testing/fault_schedule.h"

namespace hearth::testing_verbs {
namespace {

// Twenty programs of 5,000 schedules each, because a sanitizer takes minutes for so many.
constexpr std::uint64_t kSchedules = 5'000;

class FaultSchedulesSlowTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FaultSchedulesSlowTest, LoseDoubleAndMisattributeNothing) {
  const std::uint64_t first = 1'000 + GetParam() * kSchedules;
  for (std::uint64_t seed = first; seed < first + kSchedules; ++seed) {
    FaultSchedule(seed).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(AHundredThousand, FaultSchedulesSlowTest,
                         testing::Range<std::uint64_t>(0, 20));

}  // namespace
}  // namespace hearth::testing_verbs
