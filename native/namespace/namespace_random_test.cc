#include "namespace/testing/random_volume.h"

namespace hearth::tree {
namespace {

TEST(NamespaceRandom, DoesAsThePlainModelDoes) {
  RandomVolume::Seen seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(10'000, false);
    seen.insert(volume.seen().begin(), volume.seen().end());
    if (HasFailure()) return;
  }
  // Nearly every answer that the changes can have.
  EXPECT_GE(seen.size(), 90u);
}

TEST(NamespaceRandom, EveryPrefixOfALogGivesTheTreeThatTheLeaderHad) {
  for (std::uint64_t seed = 100; seed < 104; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(1'000, true);
    volume.replayPrefixes();
  }
}

}  // namespace
}  // namespace hearth::tree
