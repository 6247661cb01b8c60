// One of two disks hangs at one kind of call: nobody waits for it who can have the bytes elsewhere.
#include "engine/testing_hanging_disk.h"

namespace hearth {
namespace {

using testing_support::DiskCall;

class HangingDisk : public testing_cluster::HangingDiskTest {};

TEST_P(HangingDisk, HoldsUpNothingThatIsElsewhere) {
  faults->hang({GetParam()});
  ASSERT_NO_FATAL_FAILURE(readAll());
  EXPECT_EQ(originBytes(), fromOrigin) << "the other agent has all of it";

  ASSERT_NO_FATAL_FAILURE(warm(agent, more));
  // Evicting ends, whatever comes of it; and the other disk has room.
  for (const std::uint32_t entry : filesOf(*dataset->manifest))
    (void)agent.await(cache().evict(dataset->manifest->entry(entry).key));
  ASSERT_NO_FATAL_FAILURE(readAll());

  faults->resume();
  EXPECT_TRUE(eventually([&] { return badDirectory().failure.empty(); })) << badDirectory().failure;
  ASSERT_NO_FATAL_FAILURE(warm(agent, dataset));
  ASSERT_NO_FATAL_FAILURE(readAll());
}

INSTANTIATE_TEST_SUITE_P(Calls, HangingDisk, testing::ValuesIn(testing_cluster::allDiskCalls()),
                         testing_cluster::nameOfCall);

TEST_F(HangingDisk, IsNamedWithTheFilesThatWait) {
  faults->hang({DiskCall::kRead, DiskCall::kOpenToRead});
  ASSERT_NO_FATAL_FAILURE(readAll());
  EXPECT_NE(badDirectory().failure.find("does not answer"), std::string::npos);
  EXPECT_NE(badDirectory().waitingFiles, 0u) << "reads of them hang";
}

}  // namespace
}  // namespace hearth
