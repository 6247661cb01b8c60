#include "transport/client_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

using Bound = ClientShares::Bound;

const ClientIdentity kOnePod{"a", "a/one"}, kItsNeighbour{"a", "a/two"}, kStranger{"b", "b/one"};

TEST(ClientShares, LeaveRoomBesideEachPodAndNamespace) {
  ClientShares shares(ClientLimits::shared(100));
  std::vector<ClientShares::Share> taken{shares.take(kOnePod, 50)};
  EXPECT_EQ(shares.bound(kOnePod, 1), Bound::kPod);
  EXPECT_EQ(shares.take(kOnePod, 1), nullptr);
  taken.push_back(shares.take(kItsNeighbour, 25));
  EXPECT_EQ(shares.bound(kItsNeighbour, 1), Bound::kNamespace);
  EXPECT_EQ(shares.bound(kStranger, 26), Bound::kAll);
  taken.push_back(shares.take(kStranger, 25));
  EXPECT_EQ(shares.bound(kStranger, 1), Bound::kAll);
  for (const ClientShares::Share& share : taken) EXPECT_NE(share, nullptr);
  EXPECT_EQ(shares.taken(), 100u);
  taken.erase(taken.begin());
  EXPECT_EQ(shares.bound(kOnePod, 50), Bound::kNone);
  taken.clear();
  EXPECT_EQ(shares.taken(), 0u);
}

TEST(ClientShares, CountUntilTheLastCopyGoesAlsoWithoutTheShares) {
  auto shares = std::make_unique<ClientShares>(ClientLimits::shared(4));
  ClientShares::Share share = shares->take(kOnePod, 2), copy = share;
  share.reset();
  EXPECT_EQ(shares->taken(), 2u);
  shares.reset();
  copy.reset();
}

TEST(ClientShares, AreNotTakenInByLargeNumbers) {
  ClientShares shares(ClientLimits::shared(10));
  const ClientShares::Share share = shares.take(kOnePod, 3);
  EXPECT_EQ(shares.bound(kOnePod, ~std::uint64_t{0}), Bound::kPod);
  EXPECT_NE(shares.take(kOnePod, 0), nullptr);
}

}  // namespace
}  // namespace hearth
