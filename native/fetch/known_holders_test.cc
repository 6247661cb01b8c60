#include "fetch/known_holders.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

const ContentKey key{};
constexpr std::uint64_t kSmall = 4096;

class KnownHoldersTest : public testing::Test {
 protected:
  [[nodiscard]] std::string take(std::uint32_t chunk, std::uint64_t bytes = kSmall) {
    const auto holder = known.take(key, chunk, bytes, now);
    return holder ? holder->node : "";
  }
  void note(std::uint32_t chunk, std::uint64_t bytes = kSmall) {
    known.note(key, chunk, {"a", true}, bytes, now);
  }

  KnownHolders known;
  Clock::time_point now{std::chrono::hours(1)};
};

TEST_F(KnownHoldersTest, RemembersAHolderForItsChunkOnly) {
  note(3);
  EXPECT_EQ(take(3), "a");
  EXPECT_TRUE(known.take(key, 3, kSmall, now)->others);
  EXPECT_EQ(take(4), "");
  ContentKey other;
  other.bytes[0] = 1;
  EXPECT_FALSE(known.take(other, 3, kSmall, now));
}

// The directory counted as much when it named the holder.
TEST_F(KnownHoldersTest, ReadsAtMostAChunkOnOneAnswer) {
  note(0);
  std::uint64_t bytes = kSmall;
  for (; !take(0).empty(); bytes += kSmall) ASSERT_LE(bytes, kChunkBytes);
  EXPECT_EQ(bytes, kChunkBytes);
  note(0, kChunkBytes);
  EXPECT_EQ(known.size(), 0u) << "of which nothing is left";
}

TEST_F(KnownHoldersTest, ForgetsAHolderThatFailedOrIsOld) {
  note(0);
  known.forget(key, 0);
  EXPECT_EQ(take(0), "");
  note(0);
  now += KnownHolders::kKnown;
  EXPECT_EQ(take(0), "");
}

TEST_F(KnownHoldersTest, TakesNoMoreMemoryForMoreReaders) {
  for (std::uint32_t chunk = 0; chunk < 3 * KnownHolders::kMost; ++chunk) note(chunk);
  EXPECT_EQ(known.size(), KnownHolders::kMost);
  now += KnownHolders::kKnown;
  note(0);
  EXPECT_EQ(known.size(), 1u);
}

}  // namespace
}  // namespace hearth
