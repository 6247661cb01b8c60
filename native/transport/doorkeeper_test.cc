#include "transport/doorkeeper.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

struct DoorkeeperTest : testing::Test {
  Doorkeeper keeper{4, 3};
  std::vector<int> ended;
  std::shared_ptr<Doorkeeper::Place> enter(const std::string& source, int name) {
    return keeper.enter(source, [this, name] { ended.push_back(name); });
  }
};

TEST_F(DoorkeeperTest, TheOldestOfASourceGoesFirst) {
  const auto a = enter("mob", 1), b = enter("mob", 2), c = enter("mob", 3);
  EXPECT_NE(enter("mob", 4), nullptr);
  EXPECT_EQ(ended, (std::vector{1}));
  EXPECT_NE(enter("mob", 5), nullptr) << "the fourth has gone by itself";
  EXPECT_EQ(ended, (std::vector{1}));
  EXPECT_EQ(keeper.taken(), 2u);
}

TEST_F(DoorkeeperTest, WhoHasMostMakesPlaceForOthers) {
  const auto a = enter("honest", 1), b = enter("mob", 2), c = enter("mob", 3), d = enter("mob", 4);
  const auto e = enter("other", 5), f = enter("another", 6);
  EXPECT_EQ(ended, (std::vector{2, 3}));
  EXPECT_EQ(keeper.taken(), 4u);
}

TEST_F(DoorkeeperTest, WhatIsKeptIsNotTakenAway) {
  const auto a = enter("mob", 1), b = enter("mob", 2), c = enter("mob", 3);
  a->keep();
  const auto d = enter("mob", 4);
  EXPECT_EQ(ended, (std::vector{2}));
  for (const auto& place : {c, d}) place->keep();
  EXPECT_EQ(enter("mob", 5), nullptr);
  EXPECT_NE(enter("honest", 6), nullptr);
}

TEST_F(DoorkeeperTest, PlacesAreGivenBackOnce) {
  auto a = enter("mob", 1), b = enter("mob", 2), c = enter("mob", 3);
  const auto d = enter("mob", 4);
  a.reset();
  EXPECT_EQ(keeper.taken(), 3u);
  b.reset();
  c.reset();
  EXPECT_EQ(keeper.taken(), 1u);
}

}  // namespace
}  // namespace hearth
