#include "directory/key_directory.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr ChunkMask kAll = 0xffff;

struct KeyDirectoryTest : testing::Test {
  ContentKey key{};
  KeyDirectory::TimePoint now{};
  // Three whole stripes and one of two chunks.
  KeyDirectory directory{key, 3 * kStripeBytes + kChunkBytes + 1};
};

TEST_F(KeyDirectoryTest, KnowsTheShapeOfTheFile) {
  EXPECT_EQ(directory.stripes(), 4u);
  EXPECT_EQ(directory.whole(0), kAll);
  EXPECT_EQ(directory.whole(3), 0b11);
  EXPECT_EQ(KeyDirectory(key, 0).stripes(), 0u);
}

TEST_F(KeyDirectoryTest, GrantsAStripeToOneAgentOnly) {
  const auto first = directory.locate("a", 0, "", now);
  EXPECT_TRUE(first.granted);
  const auto second = directory.locate("b", 0, "", now);
  EXPECT_FALSE(second.granted);
  EXPECT_EQ(second.fetcher, "a");
  EXPECT_TRUE(directory.locate("a", 0, "", now).granted) << "asking again keeps the grant";
}

TEST_F(KeyDirectoryTest, SpreadsStripesOverTheAgentsThatWantTheFile) {
  KeyDirectory large(key, 64 * kStripeBytes);
  for (const char* node : {"a", "b", "c"}) (void)large.locate(node, 63, "", now);
  std::map<std::string, int> share;
  for (std::uint32_t stripe = 0; stripe < 63; ++stripe)
    ++share[large.locate("a", stripe, "", now).fetcher];
  EXPECT_EQ(share.size(), 3u);
  for (const auto& [node, count] : share) EXPECT_GT(count, 8) << node;
}

TEST_F(KeyDirectoryTest, NamesHoldersOnceTheStripeIsWhole) {
  (void)directory.locate("a", 0, "", now);
  directory.have("a", 0, kAll, now);
  const auto answer = directory.locate("b", 0, "", now);
  EXPECT_FALSE(answer.granted);
  EXPECT_TRUE(answer.fetcher.empty());
  EXPECT_EQ(answer.holders, (std::vector<StripeHolder>{{"a", kAll}}));
}

TEST_F(KeyDirectoryTest, NamesPartialHoldersAndStillLetsSomebodyFetchTheRest) {
  directory.have("a", 0, 0x000f, now);
  const auto answer = directory.locate("b", 0, "", now);
  EXPECT_EQ(answer.holders, (std::vector<StripeHolder>{{"a", 0x000f}}));
  EXPECT_EQ(answer.fetcher, "b");
}

TEST_F(KeyDirectoryTest, PassesTheGrantOnWhenItsAgentIsGoneGivesUpFailsOrStalls) {
  (void)directory.locate("a", 0, "", now);
  directory.gone("a");
  EXPECT_TRUE(directory.locate("b", 0, "", now).granted);
  directory.giveUp("b", 0);
  EXPECT_TRUE(directory.locate("c", 0, "b", now).granted);
  EXPECT_FALSE(directory.locate("d", 0, "", now).granted);
  EXPECT_EQ(directory.locate("d", 0, "c", now + 1s).fetcher, "c") << "c may have begun just now";
  EXPECT_NE(directory.locate("d", 0, "c", now + 2s).fetcher, "c") << "c goes on failing the asker";
  const std::string fetcher = directory.locate("e", 1, "", now).fetcher;
  const std::string other = fetcher == "e" ? "b" : "e";
  EXPECT_EQ(directory.locate(other, 1, "", now + 29s).fetcher, fetcher);
  directory.have(fetcher, 1, 1, now + 29s);
  EXPECT_EQ(directory.locate(other, 1, "", now + 58s).fetcher, fetcher)
      << "progress prolongs the grant";
}

// A and B want the file; B is told that A fetches a stripe before A has begun with the file, and is
// turned away. When A has begun in the meantime, the stripe must not be fetched twice.
TEST_F(KeyDirectoryTest, AnAgentThatBeganSinceItTurnedTheAskerAwayKeepsItsGrant) {
  (void)directory.locate("a", 3, "", now);
  std::uint32_t stripe = 0;
  while (directory.locate("b", stripe, "", now).fetcher != "a") ++stripe;
  ASSERT_LT(stripe, 3u);
  EXPECT_TRUE(directory.locate("a", stripe, "", now).granted);
  const auto again = directory.locate("b", stripe, "a", now + 10ms);
  EXPECT_FALSE(again.granted);
  EXPECT_EQ(again.fetcher, "a");
  directory.have("a", stripe, 1, now + 200ms);
  EXPECT_EQ(directory.locate("b", stripe, "a", now + 400ms).fetcher, "a") << "it makes progress";
  EXPECT_NE(directory.locate("b", stripe, "a", now + 800ms).fetcher, "a");
}

TEST_F(KeyDirectoryTest, AnAgentThatHasNotBegunLosesItsGrantToTheAskerItTurnedAway) {
  (void)directory.locate("a", 3, "", now);
  std::uint32_t stripe = 0;
  while (directory.locate("b", stripe, "", now).fetcher != "a") ++stripe;
  ASSERT_LT(stripe, 3u);
  EXPECT_TRUE(directory.locate("b", stripe, "a", now + 10ms).granted);
}

TEST_F(KeyDirectoryTest, AStalledGrantEnds) {
  EXPECT_TRUE(directory.locate("a", 0, "", now).granted);
  const auto answer = directory.locate("b", 0, "", now + 31s);
  EXPECT_FALSE(answer.fetcher.empty());
  directory.gone("a");
  EXPECT_TRUE(directory.locate("b", 0, "", now + 31s).granted);
}

TEST_F(KeyDirectoryTest, ForgetsWhatWasEvicted) {
  (void)directory.locate("a", 0, "", now);
  directory.have("a", 0, kAll, now);
  directory.dropped("a");
  EXPECT_TRUE(directory.locate("b", 0, "", now).holders.empty());
  KeyDirectory other(key, 64 * kStripeBytes);
  (void)other.locate("a", 0, "", now);
  other.dropped("a");
  for (std::uint32_t stripe = 1; stripe < 64; ++stripe)
    EXPECT_TRUE(other.locate("b", stripe, "", now).granted) << "a no longer wants the file";
}

TEST_F(KeyDirectoryTest, IsRebuiltFromReports) {
  directory.report("a", {.wants = true, .held = {kAll, 0, 3}, .fetching = {1}}, now);
  directory.report("b", {.wants = true, .held = {}, .fetching = {1}}, now);
  EXPECT_EQ(directory.locate("c", 0, "", now).holders.size(), 1u);
  EXPECT_EQ(directory.locate("c", 1, "", now).fetcher, "a") << "the first reported grant stands";
}

TEST_F(KeyDirectoryTest, IgnoresStripesThatDoNotExist) {
  directory.have("a", 77, kAll, now);
  directory.report(
      "a", {.wants = true, .held = std::vector<ChunkMask>(100, kAll), .fetching = {99}}, now);
  EXPECT_EQ(directory.locate("b", 3, "", now).holders, (std::vector<StripeHolder>{{"a", 0b11}}));
}

// Random agents ask, finish, fail and vanish: never are two granted the same stripe at once.
TEST_F(KeyDirectoryTest, NeverGrantsTwice) {
  std::mt19937 random(11);
  const std::vector<std::string> nodes{"a", "b", "c", "d", "e"};
  std::map<std::uint32_t, std::string> granted;
  for (int step = 0; step < 20'000; ++step) {
    now += 1ms;
    const std::string& node = nodes[random() % nodes.size()];
    const std::uint32_t stripe = random() % 4;
    switch (random() % 6) {
      case 0:
      case 1:
      case 2: {
        const auto answer = directory.locate(node, stripe, "", now);
        if (answer.granted) {
          const auto holder = granted.find(stripe);
          ASSERT_TRUE(holder == granted.end() || holder->second == node) << "step " << step;
          granted[stripe] = node;
        }
        break;
      }
      case 3:
        directory.have(node, stripe, directory.whole(stripe), now);
        if (granted[stripe] == node) granted.erase(stripe);
        break;
      case 4:
        directory.giveUp(node, stripe);
        if (granted[stripe] == node) granted.erase(stripe);
        break;
      default:
        directory.gone(node);
        std::erase_if(granted, [&](const auto& entry) { return entry.second == node; });
    }
    std::erase_if(granted, [](const auto& entry) { return entry.second.empty(); });
  }
}

}  // namespace
}  // namespace hearth
