// A holder whose disk hangs answers probes, and gives nothing: readers ask others.
#include "engine/testing_hanging_peer.h"
#include "fetch/peer_standings.h"

namespace hearth {
namespace {

class HangingPeer : public testing_cluster::HangingPeerTest {};

TEST_F(HangingPeer, CostsLittleBesideAnIdleHolder) {
  const Clock::time_point began = Clock::now();
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) ASSERT_NO_FATAL_FAILURE(readFrom(chunk));
  // Each wait is PeerStandings::patience(), which is 0.4 s as long as others give chunks sooner.
  const auto tries = (Clock::now() - began) / PeerStandings::kLeftOut + 1;
  EXPECT_GE(faults->waits(), 1) << "nobody has asked it";
  EXPECT_LE(faults->waits(), PeerStandings::kLate + tries);
  EXPECT_EQ(originBytes(), 0u);
}

}  // namespace
}  // namespace hearth
