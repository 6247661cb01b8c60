#include "fetch/peer_standings.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using std::chrono::milliseconds;

constexpr Clock::time_point kNow{std::chrono::hours(1)};

TEST(PeerStandings, LeaveAnAgentOutAfterThreeLateChunks) {
  PeerStandings standings;
  standings.late("a", kNow);
  standings.late("a", kNow);
  EXPECT_FALSE(standings.leavesOut("a", kNow));
  standings.late("a", kNow);
  EXPECT_FALSE(standings.leavesOut("a", kNow)) << "all may be slow";
  standings.gave("b", milliseconds(1), kNow);
  EXPECT_TRUE(standings.leavesOut("a", kNow));
  EXPECT_FALSE(standings.leavesOut("b", kNow));
  const auto later = kNow + PeerStandings::kLeftOut;
  EXPECT_FALSE(standings.leavesOut("a", later)) << "one chunk tries it";
  EXPECT_TRUE(standings.leavesOut("a", later)) << "and no other";
  standings.gave("a", milliseconds(1), later);
  EXPECT_FALSE(standings.leavesOut("a", later));
}

TEST(PeerStandings, WaitLongerWhereChunksUsuallyTakeLonger) {
  PeerStandings standings;
  EXPECT_EQ(standings.patience(), PeerStandings::kShortest);
  for (int i = 0; i < 50; ++i) standings.gave("a", milliseconds(1000), kNow);
  EXPECT_GT(standings.patience(), milliseconds(3900));
  EXPECT_LE(standings.patience(), milliseconds(4000));
  for (int i = 0; i < 50; ++i) standings.gave("a", milliseconds(5), kNow);
  EXPECT_EQ(standings.patience(), PeerStandings::kShortest);
}

}  // namespace
}  // namespace hearth
