#include "fetch/digest_refusals.h"

#include <gtest/gtest.h>

#include "base/testing/moved_clock.h"
#include "fetch/source_rounds.h"

namespace hearth {
namespace {

ContentKey keyOf(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return key;
}

TEST(DigestRefusals, HoldUntilTheirTimeIsOver) {
  DigestRefusals refusals;
  const auto rounds = std::make_shared<SourceRounds>();
  refusals.note(keyOf(1), rounds);
  EXPECT_EQ(refusals.roundsOf(keyOf(1)), rounds) << "also when no other has them";
  EXPECT_FALSE(refusals.refuses(keyOf(1)));
  refusals.refuse(keyOf(1));
  EXPECT_TRUE(refusals.refuses(keyOf(1)));
  EXPECT_EQ(refusals.roundsOf(keyOf(2)), nullptr);
  moveClock(DigestRefusals::kFor / 2);
  EXPECT_TRUE(refusals.refuses(keyOf(1)));
  moveClock(DigestRefusals::kFor);
  EXPECT_FALSE(refusals.refuses(keyOf(1))) << "the origin may have been put right";
}

TEST(DigestRefusals, AreForgottenWhenTheFileIsRight) {
  DigestRefusals refusals;
  refusals.note(keyOf(1), std::make_shared<SourceRounds>());
  refusals.forget(keyOf(1));
  EXPECT_EQ(refusals.roundsOf(keyOf(1)), nullptr);
}

}  // namespace
}  // namespace hearth
