#include "transport/testing/rdma_schedule.h"

namespace hearth {
namespace {

constexpr std::uint64_t kFirstSeed = 100;  // the shorter test has the seeds before
constexpr std::uint64_t kSeedsPerProgram = 1'000;

class RdmaSchedulesSlowTest : public RdmaSchedules, public testing::WithParamInterface<unsigned> {};

TEST_P(RdmaSchedulesSlowTest, EachReadEndsWithItsOwnBytes) {
  startTwo();
  run(kFirstSeed + GetParam() * kSeedsPerProgram, kSeedsPerProgram);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RdmaSchedulesSlowTest, testing::Range(0u, 3u));

}  // namespace
}  // namespace hearth
