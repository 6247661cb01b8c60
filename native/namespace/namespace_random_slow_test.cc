#include "namespace/testing/random_volume.h"

namespace hearth::tree {
namespace {

TEST(NamespaceRandomSlow, DoesAsThePlainModelDoesForMillionsOfChanges) {
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(20'000, false);
    if (HasFailure()) return;
  }
}

TEST(NamespaceRandomSlow, EveryPrefixOfALogGivesTheTreeThatTheLeaderHad) {
  for (std::uint64_t seed = 2000; seed < 2040; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(1'000, true);
    volume.replayPrefixes();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hearth::tree
