#include "fetch/digest_refusals.h"

#include <gtest/gtest.h>

#include "base/testing/moved_clock.h"

namespace hearth {
namespace {

ContentKey keyOf(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return key;
}

TEST(DigestRefusals, RefuseAFileThatDifferedTwiceUntilItsTimeIsOver) {
  DigestRefusals refusals;
  EXPECT_FALSE(refusals.note(keyOf(1))) << "it is fetched once more";
  EXPECT_TRUE(refusals.differed(keyOf(1)));
  EXPECT_FALSE(refusals.refuses(keyOf(1)));
  EXPECT_TRUE(refusals.note(keyOf(1)));
  EXPECT_TRUE(refusals.refuses(keyOf(1)));
  EXPECT_FALSE(refusals.differed(keyOf(2)));
  moveClock(DigestRefusals::kFor / 2);
  EXPECT_TRUE(refusals.refuses(keyOf(1)));
  moveClock(DigestRefusals::kFor);
  EXPECT_FALSE(refusals.differed(keyOf(1))) << "the origin may have been put right";
}

TEST(DigestRefusals, AreForgottenWhenTheFileIsRight) {
  DigestRefusals refusals;
  EXPECT_FALSE(refusals.note(keyOf(1)));
  refusals.forget(keyOf(1));
  EXPECT_FALSE(refusals.note(keyOf(1))) << "the first time again";
}

}  // namespace
}  // namespace hearth
