// Random schedules of faults over the RDMA ports between two agents (testing/rdma_schedule.h).
#include "transport/testing/rdma_schedule.h"

namespace hearth {
namespace {

class RdmaSchedulesTest : public RdmaSchedules {};

TEST_F(RdmaSchedulesTest, EachReadEndsWithItsOwnBytes) {
  startTwo();
  run(0, 100);
}

}  // namespace
}  // namespace hearth
