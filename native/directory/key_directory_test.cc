#include "directory/key_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>
#include <random>

#include "directory/testing/key_directory_fixture.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

using directory_testing::kAll;
using enum Intent;

struct KeyDirectoryTest : directory_testing::KeyDirectoryFixture {};

TEST_F(KeyDirectoryTest, GrantsAChunkToOneAgentOnly) {
  EXPECT_EQ(directory.locate("a", 0, 0b0011, kFetch, {}, now).granted, 0b0011);
  const auto second = directory.locate("b", 0, 0b0110, kFetch, {}, now);
  EXPECT_EQ(second.granted, 0b0100);
  EXPECT_EQ(second.fetchers, (std::vector<StripeHolder>{{"a", 0b0010}}));
  EXPECT_EQ(second.fetcherOf(1), "a");
  EXPECT_EQ(second.fetcherOf(2), "");
  EXPECT_EQ(directory.locate("a", 0, 0b0001, kFetch, {}, now).granted, 0b0001)
      << "asking again keeps the grant";
  EXPECT_EQ(directory.locate("a", 0, 0b0001, kLookUp, {}, now).granted, 0) << "it cannot fetch now";
}

TEST_F(KeyDirectoryTest, GrantsNothingToWhoOnlyLooks) {
  const auto look = directory.locate("a", 0, kAll, kLookUp, {}, now);
  EXPECT_EQ(look.granted, 0);
  EXPECT_TRUE(look.fetchers.empty());
  EXPECT_EQ(directory.locate("b", 0, 0b1, kFetch, {}, now).granted, 0b1);
  EXPECT_EQ(directory.locate("a", 0, 0b1, kLookUp, {}, now).fetcherOf(0), "b");
}

TEST_F(KeyDirectoryTest, NamesTheNearestOfThoseThatCanGiveAChunkNow) {
  // The first letter of a name is its zone.
  KeyDirectory zones(
      [](const std::string& a, const std::string& b) { return a.front() == b.front() ? 0u : 1u; });
  for (const char* const holder : {"a1", "a2", "b1"}) zones.have(holder, 0, kAll, now);
  for (int i = 0; i < 8; ++i) {
    const auto answer = zones.locate("b" + std::to_string(2 + i), 0, 0b1, kLookUp, {}, now);
    EXPECT_EQ(answer.holderOf(0), "b1") << "whatever it gave before";
  }
  // Two at a time read one chunk from one agent; who comes then reads from farther away.
  EXPECT_EQ(zones.locate("b2", 0, 0b1, kRead, {}, now).holderOf(0), "b1");
  EXPECT_EQ(zones.locate("b3", 0, 0b1, kRead, {}, now).holderOf(0), "b1");
  EXPECT_EQ(zones.locate("b4", 0, 0b1, kRead, {}, now).holderOf(0).front(), 'a');
}

TEST_F(KeyDirectoryTest, CountsTheAgentsThatWantTheKey) {
  EXPECT_EQ(directory.locate("a", 0, 1, kLookUp, {}, now).sharers, 1u);
  EXPECT_EQ(directory.locate("b", 1, 1, kLookUp, {}, now).sharers, 2u);
  directory.report("c", {.wants = false, .held = {kAll}, .fetching = {}}, now);
  EXPECT_EQ(directory.locate("b", 1, 1, kLookUp, {}, now).sharers, 2u) << "c only holds it";
  directory.dropped("a");
  EXPECT_EQ(directory.locate("b", 1, 1, kLookUp, {}, now).sharers, 1u);
}

// They ask the origin for nothing: what it gives is not divided among them.
TEST_F(KeyDirectoryTest, WhoKeepsNothingIsNoSharer) {
  directory.have("holder", 0, 0b1, now);
  for (const char* node : {"x", "y", "z"})
    (void)directory.locate(node, 0, 0b1, kReadThrough, {}, now);
  EXPECT_EQ(directory.locate("a", 0, 0b10, kFetch, {}, now).sharers, 1u);
  (void)directory.locate("a", 0, 0b1, kReadThrough, {}, now);
  EXPECT_EQ(directory.locate("b", 0, 0b10, kLookUp, {}, now).sharers, 2u) << "a fetches, too";
}

// An agent that only inspects is no agent of the key, and takes no holder's time.
TEST_F(KeyDirectoryTest, InspectingChangesNothing) {
  directory.have("holder", 0, 0b1, now);
  (void)directory.locate("a", 0, 0b10, kFetch, {}, now);
  for (const char* node : {"x", "y", "z"}) {
    const auto answer = directory.locate(node, 0, 0b111, kInspect, {}, now);
    EXPECT_EQ(answer.holders, (std::vector<StripeHolder>{{"holder", 0b1}}));
    EXPECT_EQ(answer.fetchers, (std::vector<StripeHolder>{{"a", 0b10}}));
    EXPECT_EQ(answer.granted, 0);
  }
  (void)directory.locate("holder", 0, 0b1, kInspect, {}, now);
  const auto answer = directory.locate("b", 0, 0b1, kRead, {}, now);
  EXPECT_EQ(answer.holderOf(0), "holder");
  EXPECT_EQ(answer.sharers, 2u) << "a and b";
}

TEST_F(KeyDirectoryTest, NamesHoldersAsSoonAsAChunkIsThere) {
  (void)directory.locate("a", 0, 0b11, kFetch, {}, now);
  directory.have("a", 0, 0b01, now);
  const auto answer = directory.locate("b", 0, 0b11, kFetch, {}, now);
  EXPECT_EQ(answer.holders, (std::vector<StripeHolder>{{"a", 0b01}}));
  EXPECT_EQ(answer.fetchers, (std::vector<StripeHolder>{{"a", 0b10}}));
  EXPECT_EQ(answer.granted, 0);
  directory.have("a", 0, kAll, now);
  EXPECT_EQ(directory.locate("b", 0, 0b1100, kFetch, {}, now).holderOf(3), "a");
}

TEST_F(KeyDirectoryTest, NeverNamesTheAsker) {
  directory.have("a", 0, 0b01, now);
  const auto answer = directory.locate("a", 0, 0b10, kFetch, {}, now);
  EXPECT_TRUE(answer.holders.empty());
  EXPECT_EQ(answer.granted, 0b10);
}

// Files that make room for others are evicted without a word to their directories.
TEST_F(KeyDirectoryTest, WhoAsksForWhatItHadIsGrantedItAndNotNamedForIt) {
  directory.have("a", 0, 0b11, now);
  EXPECT_EQ(directory.locate("a", 0, 0b01, kFetch, {}, now).granted, 0b01);
  const auto other = directory.locate("b", 0, 0b11, kFetch, {}, now);
  EXPECT_EQ(other.holderOf(0), "");
  EXPECT_EQ(other.fetcherOf(0), "a");
  EXPECT_EQ(other.holderOf(1), "a") << "of the rest it said nothing";
}

// Agents that ask in the same order for as much as they can fetch get shares that fit their speed,
// and the chunks on their way are always the next of the file.
TEST_F(KeyDirectoryTest, DividesAFileByTheSpeedOfItsFetchers) {
  KeyDirectory large;
  const std::map<std::string, int> turnsAMinute{{"fast", 3}, {"even", 2}, {"slow", 1}};
  std::map<std::string, std::uint32_t> at, share;
  const std::uint32_t chunks = 64 * kChunksPerStripe;
  std::uint32_t granted = 0;
  while (granted < chunks) {
    for (const auto& [node, turns] : turnsAMinute) {
      for (int turn = 0; turn < turns && granted < chunks; ++turn) {
        for (;; ++at[node]) {
          const std::uint32_t stripe = at[node] / kChunksPerStripe;
          const auto bit = static_cast<ChunkMask>(1u << (at[node] % kChunksPerStripe));
          if (large.locate(node, stripe, bit, kFetch, {}, now).granted == 0) continue;
          EXPECT_EQ(at[node]++, granted) << "the next one of all";
          ++granted;
          ++share[node];
          break;
        }
      }
    }
  }
  EXPECT_EQ(share["fast"], chunks / 2);
  EXPECT_NEAR(share["even"], chunks / 3, 1);
  EXPECT_NEAR(share["slow"], chunks / 6, 1);
}

TEST_F(KeyDirectoryTest, PassesTheGrantOnWhenItsAgentIsGoneGivesUpOrFails) {
  (void)directory.locate("a", 0, 1, kFetch, {}, now);
  directory.gone("a");
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {}, now).granted, 1);
  directory.giveUp("b", 0, 1);
  EXPECT_EQ(directory.locate("c", 0, 1, kFetch, {"b"}, now).granted, 1);
  EXPECT_EQ(directory.locate("d", 0, 1, kFetch, {"c"}, now + 1s).fetcherOf(0), "c")
      << "c may not know of it yet";
  EXPECT_EQ(directory.locate("d", 0, 1, kFetch, {"c"}, now + 2s).granted, 1)
      << "c goes on failing the asker";
}

TEST_F(KeyDirectoryTest, GivingUpLeavesOtherGrantsAlone) {
  for (const std::uint32_t stripe : {0u, 1u, 2u})
    (void)directory.locate("a", stripe, 0b11, kFetch, {}, now);
  (void)directory.locate("b", 0, 0b100, kFetch, {}, now);
  directory.giveUp("a", 1, 0b10);
  for (const std::uint32_t stripe : {0u, 2u})
    EXPECT_EQ(directory.locate("c", stripe, 0b11, kLookUp, {}, now).fetchers,
              (std::vector<StripeHolder>{{"a", 0b11}}));
  EXPECT_EQ(directory.locate("c", 1, 0b11, kLookUp, {}, now).fetchers,
            (std::vector<StripeHolder>{{"a", 0b01}}));
  directory.giveUp("a", 0, 0b101);
  EXPECT_EQ(directory.locate("c", 0, 0b111, kLookUp, {}, now).fetchers,
            (std::vector<StripeHolder>{{"a", 0b10}, {"b", 0b100}}));
}

TEST_F(KeyDirectoryTest, NoAgentWaitsForOneThatReadAChunkAndDidNotKeepIt) {
  directory.have("holder", 0, 0b1, now);
  for (const char* const reader : {"a", "b"})
    (void)directory.locate(reader, 0, 0b1, kRead, {}, now);
  EXPECT_NE(directory.locate("c", 0, 0b1, kRead, {}, now).fetcherOf(0), "");
  directory.giveUp("a", 0, 0b1);
  directory.giveUp("b", 0, 0b1);
  EXPECT_EQ(directory.locate("c", 0, 0b1, kRead, {}, now).holderOf(0), "holder");
}

TEST_F(KeyDirectoryTest, ProgressEndsSuspicion) {
  (void)directory.locate("a", 0, 0b11, kFetch, {}, now);
  EXPECT_EQ(directory.locate("b", 0, 0b10, kFetch, {"a"}, now).fetcherOf(1), "a");
  directory.have("a", 0, 0b01, now + 200ms);
  EXPECT_EQ(directory.locate("b", 0, 0b10, kFetch, {"a"}, now + 400ms).fetcherOf(1), "a");
  EXPECT_EQ(directory.locate("b", 0, 0b10, kFetch, {"a"}, now + 800ms).granted, 0b10);
}

TEST_F(KeyDirectoryTest, AStalledGrantEnds) {
  (void)directory.locate("a", 0, 0b1, kFetch, {}, now);
  (void)directory.locate("a", 1, 0b1, kFetch, {}, now);
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {}, now + 29s).fetcherOf(0), "a");
  directory.have("a", 1, 0b1, now + 29s);
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {}, now + 58s).fetcherOf(0), "a")
      << "progress with the key prolongs its grants";
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {}, now + 60s).granted, 1);
}

// B is turned away by A, which does not know of its grant yet, and reports the failure when A has
// the chunk.
TEST_F(KeyDirectoryTest, WhatCameInSinceAFailureReportIsKnown) {
  (void)directory.locate("a", 0, 1, kFetch, {}, now);
  directory.have("a", 0, 1, now);
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {"a"}, now + 1s).holderOf(0), "a");
}

TEST_F(KeyDirectoryTest, SaysWhatOthersCouldGiveToo) {
  directory.have("a", 0, 0b11, now);
  directory.have("c", 0, 0b01, now);
  const auto answer = directory.locate("b", 0, 0b11, kRead, {}, now);
  EXPECT_EQ(answer.elsewhere, 0b01);
  EXPECT_EQ(directory.locate("b", 0, 0b01, kRead, {answer.holderOf(0), true}, now).elsewhere, 0)
      << "the one that is left";
}

TEST_F(KeyDirectoryTest, ForgetsWhatWasEvicted) {
  directory.have("a", 0, kAll, now);
  directory.dropped("a");
  EXPECT_TRUE(directory.locate("b", 0, kAll, kLookUp, {}, now).holders.empty());
}

TEST_F(KeyDirectoryTest, IsRebuiltFromReports) {
  directory.report("a", {.wants = true, .held = {kAll, 0, 3}, .fetching = {17}}, now);
  directory.report("b", {.wants = true, .held = {}, .fetching = {17, 18}}, now);
  EXPECT_EQ(directory.locate("c", 0, 1, kFetch, {}, now).holderOf(0), "a");
  const auto answer = directory.locate("c", 1, 0b110, kFetch, {}, now);
  EXPECT_EQ(answer.fetcherOf(17), "a") << "the first reported grant stands";
  EXPECT_EQ(answer.fetcherOf(18), "b");
}

TEST_F(KeyDirectoryTest, BelievesNothingOfWhatNoFileHas) {
  directory.have("a", kMaxStripes, kAll, now);
  directory.report("a", {.wants = true, .held = {}, .fetching = {~0u}}, now);
  const auto answer = directory.locate("b", kMaxStripes, kAll, kFetch, {}, now);
  EXPECT_TRUE(answer.holders.empty());
  EXPECT_EQ(answer.granted, 0);
}

// Its first chunk would be the first one of the file, computed in 32 bits.
TEST_F(KeyDirectoryTest, GivingUpWhatNoFileHasChangesNothing) {
  directory.have("holder", 0, 0b1, now);
  for (const char* const reader : {"a", "b"})
    (void)directory.locate(reader, 0, 0b1, kRead, {}, now);
  for (const char* const reader : {"a", "b"}) directory.giveUp(reader, std::uint32_t{1} << 28, 0b1);
  EXPECT_NE(directory.locate("c", 0, 0b1, kRead, {}, now).fetcherOf(0), "")
      << "a and b are reading it";
}

TEST_F(KeyDirectoryTest, BelievesNoAgentThatItFetchesMoreThanItHasMemoryFor) {
  constexpr std::uint32_t kMax = KeyDirectory::kMaxReportedGrants;
  std::vector<std::uint32_t> fetching(kMax + 1);
  std::iota(fetching.begin(), fetching.end(), 0u);
  directory.report("a", {.wants = true, .held = {}, .fetching = fetching}, now);
  const auto askFor = [&](std::uint32_t chunk) {
    return directory.locate("b", chunk / kChunksPerStripe, bitOf(chunk), kFetch, {}, now);
  };
  EXPECT_EQ(askFor(kMax - 1).fetcherOf(kMax - 1), "a");
  EXPECT_EQ(askFor(kMax).granted, bitOf(kMax));
}

// Random agents ask, finish, fail and vanish: never are two granted the same chunk at once.
TEST_F(KeyDirectoryTest, NeverGrantsTwice) {
  std::mt19937 random(11);
  const std::vector<std::string> nodes{"a", "b", "c", "d", "e"};
  std::map<std::uint32_t, std::string> granted;
  const auto forget = [&](const std::string& node, std::uint32_t stripe, ChunkMask chunks) {
    std::erase_if(granted, [&](const auto& entry) {
      return entry.second == node && entry.first / kChunksPerStripe == stripe &&
             (chunks >> (entry.first % kChunksPerStripe) & 1) != 0;
    });
  };
  for (int step = 0; step < 20'000; ++step) {
    now += 1ms;
    const std::string& node = nodes[random() % nodes.size()];
    const std::uint32_t stripe = random() % 4;
    const auto chunks = static_cast<ChunkMask>(random());
    switch (random() % 6) {
      case 0:
      case 1:
      case 2: {
        const Intent intent = random() % 3 == 0 ? kLookUp : kFetch;
        const auto answer = directory.locate(node, stripe, chunks, intent, {}, now);
        for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
          if ((answer.granted >> i & 1) == 0) continue;
          const auto [known, isNew] = granted.emplace(stripe * kChunksPerStripe + i, node);
          ASSERT_EQ(known->second, node) << "step " << step;
        }
        break;
      }
      case 3:
        directory.have(node, stripe, chunks, now);
        forget(node, stripe, chunks);
        break;
      case 4:
        directory.giveUp(node, stripe, chunks);
        forget(node, stripe, chunks);
        break;
      default:
        directory.gone(node);
        std::erase_if(granted, [&](const auto& entry) { return entry.second == node; });
    }
  }
}

}  // namespace
}  // namespace hearth
