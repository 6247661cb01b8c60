#include "transport/held_slots.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/generated/constants.h"

namespace hearth {
namespace {

class HeldSlotsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const void> hold(const std::string& peer, std::size_t slot) {
    return held_->hold(peer, &arena_[slot], owner_);
  }
  // The owner's references beside the test's.
  [[nodiscard]] long kept() const { return owner_.use_count() - 1; }

  std::shared_ptr<HeldSlots> held_ =
      std::make_shared<HeldSlots>(HeldSlots::Limits{.total = 3, .perPeer = 2});
  std::array<std::byte, 8> arena_{};  // only addresses are looked at
  std::shared_ptr<int> owner_ = std::make_shared<int>();
};

TEST_F(HeldSlotsTest, APeerHoldsItsQuotaAndNoMore) {
  const auto first = hold("a", 0), second = hold("a", 1);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  EXPECT_EQ(hold("a", 2), nullptr);
  EXPECT_NE(hold("b", 2), nullptr);
  EXPECT_EQ(held_->held(), 2u) << "b's has gone";
  EXPECT_EQ(kept(), 2);
}

TEST_F(HeldSlotsTest, AllPeersTogetherHoldNoMoreThanTheTotal) {
  std::vector<std::shared_ptr<const void>> all{hold("a", 0), hold("a", 1), hold("b", 2)};
  EXPECT_EQ(hold("b", 3), nullptr);
  EXPECT_EQ(hold("c", 3), nullptr);
  all.erase(all.begin());
  EXPECT_NE(hold("c", 3), nullptr);
}

TEST_F(HeldSlotsTest, ASlotCountsOnceForItsAnswers) {
  auto first = hold("a", 0), again = hold("a", 0);
  const auto second = hold("a", 1);
  ASSERT_TRUE(again != nullptr && second != nullptr);
  EXPECT_EQ(held_->held(), 2u);
  EXPECT_NE(hold("a", 0), nullptr) << "its slot is held already";
  first.reset();
  EXPECT_EQ(hold("a", 2), nullptr) << "the other answer is under way";
  again.reset();
  EXPECT_NE(hold("a", 2), nullptr);
  EXPECT_EQ(kept(), 1);
}

TEST_F(HeldSlotsTest, HoldsMayOutliveIt) {
  auto last = hold("a", 0);
  held_.reset();
  last.reset();
  EXPECT_EQ(kept(), 0);
}

TEST_F(HeldSlotsTest, LimitsLeaveHalfOfTheArena) {
  const HeldSlots::Limits small = HeldSlots::Limits::of(32 * kChunkBytes, 2);
  EXPECT_EQ(small.total, 8u);
  EXPECT_EQ(small.perPeer, 4u);
  const HeldSlots::Limits large = HeldSlots::Limits::of(std::uint64_t{1} << 40, 1);
  EXPECT_EQ(large.perPeer, HeldSlots::kSlotsPerPeer);
  EXPECT_EQ(HeldSlots::Limits::of(0, 1).total, 0u);
}

}  // namespace
}  // namespace hearth
