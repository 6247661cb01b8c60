#include "reactor/idle_look.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using End = IdleLook::End;

class IdleLookTest : public testing::Test {
 protected:
  // Something is expected; true: a look followed, and ended so.
  bool expect(End end) {
    look.expect();
    if (!look.isWanted()) return false;
    look.begin();
    look.ended(end);
    return true;
  }
  // Expectations that are passed over before the next look, which ends so.
  int pauseBefore(End end) {
    for (int passed = 0;; ++passed)
      if (expect(end)) return passed;
  }
  IdleLook look;
};

TEST_F(IdleLookTest, LooksOnlyForWhatIsExpectedAndOnce) {
  EXPECT_FALSE(look.isWanted());
  EXPECT_TRUE(expect(End::kCame));
  EXPECT_FALSE(look.isWanted());
  EXPECT_EQ(look.counts().looks, 1u);
  EXPECT_EQ(look.counts().inVain, 0u);
}

TEST_F(IdleLookTest, StopsWhenLooksAreInVain) {
  for (int i = 0; i < IdleLook::kMisses; ++i) EXPECT_TRUE(expect(End::kInVain));
  EXPECT_FALSE(expect(End::kInVain));
  EXPECT_EQ(look.counts().looks, static_cast<std::uint64_t>(IdleLook::kMisses));
}

TEST_F(IdleLookTest, ALookThatPaidForgivesThoseBefore) {
  for (int i = 0; i < 10 * IdleLook::kMisses; ++i)
    EXPECT_TRUE(expect(i % IdleLook::kMisses == 0 ? End::kCame : End::kInVain));
}

TEST_F(IdleLookTest, StopsAtOnceWhereTheCoreIsWanted) {
  EXPECT_TRUE(expect(End::kCoreWanted));
  EXPECT_FALSE(expect(End::kCame));
}

TEST_F(IdleLookTest, PausesGrowUntilALookPays) {
  EXPECT_EQ(pauseBefore(End::kCoreWanted), 0);
  for (std::uint32_t pause = IdleLook::kFirstPause; pause < IdleLook::kLongestPause; pause *= 2)
    EXPECT_EQ(pauseBefore(End::kInVain), static_cast<int>(pause));
  EXPECT_EQ(pauseBefore(End::kInVain), static_cast<int>(IdleLook::kLongestPause));
  EXPECT_EQ(pauseBefore(End::kCame), static_cast<int>(IdleLook::kLongestPause));
  EXPECT_EQ(pauseBefore(End::kCoreWanted), 0);
  EXPECT_EQ(pauseBefore(End::kCame), static_cast<int>(IdleLook::kFirstPause));
}

}  // namespace
}  // namespace hearth
