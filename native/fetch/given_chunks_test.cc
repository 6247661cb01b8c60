#include "fetch/given_chunks.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(GivenChunks, OnlyTheLastOneIsHeldBack) {
  GivenChunks given;
  EXPECT_TRUE(given.give(3, 4, 4));
  EXPECT_TRUE(given.give(0, 1, 4));
  EXPECT_TRUE(given.give(0, 2, 4));
  EXPECT_FALSE(given.give(2, 3, 4)) << "it is the last one";
  EXPECT_FALSE(given.give(1, 3, 4)) << "also with one that was given";
  EXPECT_TRUE(given.give(1, 2, 4)) << "what was given is given again";
}

TEST(GivenChunks, AllAreHeldBackOnceAllAreGiven) {
  GivenChunks given;
  EXPECT_FALSE(given.give(0, 2, 2)) << "all of it at once";
  given.note(0, 2);
  EXPECT_FALSE(given.give(0, 1, 2));
  given.clear();
  EXPECT_TRUE(given.give(0, 1, 2));
  EXPECT_FALSE(given.give(1, 2, 2));
}

TEST(GivenChunks, TheOnlyOneIsTheLastOne) {
  GivenChunks given;
  EXPECT_FALSE(given.give(0, 1, 1));
}

}  // namespace
}  // namespace hearth
