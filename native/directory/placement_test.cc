#include "directory/placement.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth {
namespace {

std::vector<std::uint64_t> hashes(int count) {
  std::vector<std::uint64_t> result;
  for (int i = 0; i < count; ++i) result.push_back(nodeHash("node-" + std::to_string(i)));
  return result;
}

// Computed apart from this code. These numbers are on other machines' disks and wires by their
// consequences: they may never change.
TEST(Placement, IsFixedForEver) {
  EXPECT_EQ(nodeHash("node-a"), 0x40a36dc372dab80aull);
  EXPECT_EQ(placementWeight(42, nodeHash("node-a")), 0x6a5b422ad61880e7ull);
  EXPECT_EQ(stripeItem(42, 3), 0x6e730f933545f245ull);
}

TEST(Placement, SpreadsItemsEvenly) {
  const auto nodes = hashes(8);
  std::vector<int> share(8, 0);
  for (std::uint32_t stripe = 0; stripe < 80'000; ++stripe) {
    ++share[rendezvousOrder(stripeItem(7, stripe), nodes, 1)[0]];
  }
  for (const int count : share) EXPECT_NEAR(count, 10'000, 400);
}

TEST(Placement, AnAgentThatLeavesMovesOnlyItsOwnItems) {
  const auto nodes = hashes(8);
  const std::vector<std::uint64_t> fewer(nodes.begin(), nodes.end() - 1);
  for (std::uint32_t stripe = 0; stripe < 2'000; ++stripe) {
    const auto before = rendezvousOrder(stripeItem(7, stripe), nodes, 2);
    const auto after = rendezvousOrder(stripeItem(7, stripe), fewer, 1);
    EXPECT_EQ(after[0], before[0] == 7 ? before[1] : before[0]);
  }
}

TEST(Placement, GivesNoMoreThanThereAre) {
  EXPECT_TRUE(rendezvousOrder(1, {}, 3).empty());
  EXPECT_EQ(rendezvousOrder(1, hashes(2), 3).size(), 2u);
}

}  // namespace
}  // namespace hearth
