#include "transport/testing/rdma_schedule.h"

namespace hearth {
namespace {

class RdmaSchedulesSlowTest : public RdmaSchedules {};

TEST_F(RdmaSchedulesSlowTest, EachReadEndsWithItsOwnBytes) {
  startTwo();
  run(100, 3'000);
}

}  // namespace
}  // namespace hearth
