#include "base/testing/sanitizers.h"
#include "namespace/testing/random_volume.h"

namespace hearth::tree {
namespace {

// Sanitizers take their time.
constexpr std::uint64_t kLives = kSanitized ? 3 : 20;
constexpr std::uint64_t kCompared = kSanitized ? 1 : 4;

TEST(NamespaceRandom, DoesAsThePlainModelDoes) {
  RandomVolume::Seen seen;
  for (std::uint64_t seed = 1; seed <= kLives; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(10'000, false);
    seen.insert(volume.seen().begin(), volume.seen().end());
    if (HasFailure()) return;
  }
  // Nearly every answer that the changes can have.
  EXPECT_GE(seen.size(), kSanitized ? 70u : 90u);
}

TEST(NamespaceRandom, EveryPrefixOfALogGivesTheTreeThatTheLeaderHad) {
  for (std::uint64_t seed = 100; seed < 100 + kCompared; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomVolume volume(seed);
    volume.run(1'000, true);
    volume.replayPrefixes();
  }
}

}  // namespace
}  // namespace hearth::tree
