#include "fuse/caller.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

namespace hearth {
namespace {

TEST(Caller, ThreadsOfAProcessAreOne) {
  const auto here = static_cast<std::uint32_t>(getpid());
  std::uint32_t other = 0;
  std::uint64_t caller = 0;
  std::thread([&] {
    other = static_cast<std::uint32_t>(gettid());
    caller = callerOf(other, 1000);
  }).join();
  EXPECT_NE(other, here);
  EXPECT_EQ(caller, callerOf(here, 0));
  EXPECT_NE(caller, callerOf(1, 0)) << "of another process";
}

TEST(Caller, AThreadsNameMakesItNoOther) {
  const auto here = static_cast<std::uint32_t>(getpid());
  std::uint64_t caller = 0;
  std::thread([&] {
    ASSERT_EQ(prctl(PR_SET_NAME, "Tgid: 1"), 0);
    caller = callerOf(static_cast<std::uint32_t>(gettid()), 0);
  }).join();
  EXPECT_EQ(caller, here);
}

TEST(Caller, WhoHasNoNumberIsDistinguishedByTheUser) {
  EXPECT_EQ(callerOf(0, 1000), callerOf(0, 1000));
  EXPECT_NE(callerOf(0, 1000), callerOf(0, 1001));
  EXPECT_NE(callerOf(0, 1), callerOf(1, 1)) << "a user is no process";
}

}  // namespace
}  // namespace hearth
