#include "warm/bad_blocks.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(BadBlocks, NamesEachBlockOnce) {
  BadBlocks bad;
  EXPECT_EQ(bad.text(), "");
  bad.add(5);
  EXPECT_EQ(bad.text(), "block 5");
  for (const std::uint64_t block : {145u, 144u, 5u, 2u}) bad.add(block);
  EXPECT_EQ(bad.text(), "blocks 2, 5, 144-145");
  EXPECT_EQ(bad.count(), 4u);
  EXPECT_TRUE(bad.overlaps(144, 150));
  EXPECT_FALSE(bad.overlaps(6, 144));
}

TEST(BadBlocks, CountsThoseBeyondALine) {
  BadBlocks bad;
  for (std::uint64_t block = 0; block < 40; block += 2) bad.add(block);
  EXPECT_EQ(bad.text(),
            "blocks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 4 more");
}

}  // namespace
}  // namespace hearth
