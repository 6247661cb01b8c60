// The holders to which a key's directory sends readers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "directory/testing/key_directory_fixture.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

using directory_testing::kAll;
using enum Intent;

struct ReadersTest : directory_testing::KeyDirectoryFixture {};

TEST_F(ReadersTest, SpreadsReadersOverHolders) {
  KeyDirectory large;
  for (const char* node : {"a", "b", "c", "d"}) {
    for (std::uint32_t stripe = 0; stripe < 64; ++stripe) large.have(node, stripe, kAll, now);
  }
  std::map<std::string, int> read;
  for (std::uint32_t stripe = 0; stripe < 64; ++stripe) {
    for (const char* node : {"x", "y", "z"}) {
      for (const StripeHolder& holder : large.locate(node, stripe, kAll, kRead, {}, now).holders)
        read[holder.node] += std::popcount(holder.chunks);
    }
  }
  EXPECT_EQ(read.size(), 4u);
  for (const auto& [node, chunks] : read) EXPECT_NEAR(chunks, 3 * 64 * 16 / 4, 1) << node;
}

// They come as often as they like and keep nothing: who gave little once would give to all of them.
TEST_F(ReadersTest, SpreadsThoseOverHoldersWhoKeepNothing) {
  directory.have("a", 0, kAll, now);
  EXPECT_EQ(directory.locate("b", 0, kAll, kRead, {}, now).holderOf(0), "a");
  directory.have("b", 0, kAll, now);
  std::map<std::string, int> read;
  for (int i = 0; i < 8; ++i) {
    for (const char* node : {"x", "y", "z"}) {
      for (const auto& holder : directory.locate(node, 0, kAll, kReadThrough, {}, now).holders)
        read[holder.node] += std::popcount(holder.chunks);
    }
  }
  EXPECT_NEAR(read["b"], (3 * 8 * 16 + 16) / 2, 1) << "with what a gave before";
  EXPECT_NEAR(read["a"], (3 * 8 * 16 - 16) / 2, 1);
}

// No other agent waits for them, or is sent to them later.
TEST_F(ReadersTest, WhoKeepsNothingIsNamedToNone) {
  directory.have("a", 0, 0b1, now);
  for (const char* node : {"x", "y", "z"})
    EXPECT_EQ(directory.locate(node, 0, 0b1, kReadThrough, {}, now).holderOf(0), "a");
  for (const char* node : {"b", "c"}) {
    const auto answer = directory.locate(node, 0, 0b1, kRead, {}, now);
    EXPECT_EQ(answer.holderOf(0), "a") << "which is not busy";
    EXPECT_TRUE(answer.fetchers.empty());
  }
  const auto awaitedBy = [&](const std::string& node) {
    return directory.locate(node, 0, 0b1, kRead, {}, now).fetcherOf(0);
  };
  EXPECT_THAT(awaitedBy("d"), testing::AnyOf("b", "c"));
  // Of one that also reads it to keep it, that goes on.
  for (const char* node : {"b", "c"}) (void)directory.locate(node, 0, 0b1, kReadThrough, {}, now);
  EXPECT_THAT(awaitedBy("d"), testing::AnyOf("b", "c"));
  EXPECT_EQ(directory.locate("x", 1, 0b1, kReadThrough, {}, now).granted, 0);
}

// It may come behind the update that the same agent has it: it was asked before, or of a chunk that
// another read brings.
TEST_F(ReadersTest, WhoOnlyLooksGoesOnHoldingWhatItReported) {
  directory.have("a", 0, 0b11, now);
  (void)directory.locate("a", 0, kAll, kLookUp, {}, now);
  (void)directory.locate("a", 0, kAll, kReadThrough, {}, now);
  EXPECT_EQ(directory.locate("b", 0, kAll, kLookUp, {}, now).holders,
            (std::vector<StripeHolder>{{"a", 0b11}}));
}

// Only A has the chunk: two read it from there, the others wait for these and read it from them.
TEST_F(ReadersTest, AHolderGivesAChunkToFewAtATime) {
  directory.have("a", 0, 1, now);
  for (const char* node : {"b", "c"})
    EXPECT_EQ(directory.locate(node, 0, 1, kRead, {}, now).holderOf(0), "a");
  std::map<std::string, int> awaited, read;
  for (const char* node : {"d", "e", "f", "g"}) {
    EXPECT_EQ(directory.locate(node, 0, 1, kLookUp, {}, now).holderOf(0), "a");
    const auto answer = directory.locate(node, 0, 1, kRead, {}, now);
    EXPECT_TRUE(answer.holders.empty());
    ++awaited[answer.fetcherOf(0)];
  }
  EXPECT_EQ(awaited, (std::map<std::string, int>{{"b", 2}, {"c", 2}}));
  for (const char* node : {"b", "c"}) directory.have(node, 0, 1, now);
  for (const char* node : {"d", "e", "f", "g"})
    ++read[directory.locate(node, 0, 1, kRead, {}, now).holderOf(0)];
  EXPECT_EQ(read, (std::map<std::string, int>{{"b", 2}, {"c", 2}}));
}

TEST_F(ReadersTest, AReaderForWhomAnotherWaitsIsNotSentToWaitForAFewReaders) {
  directory.have("a", 0, 1, now);
  for (const char* node : {"b", "c", "d", "e"})
    EXPECT_EQ(directory.locate(node, 0, 1, kFetch, {}, now).holderOf(0), "a");
}

// However many read at the same time, one holder does not give to all of them.
TEST_F(ReadersTest, ManyReadersForWhomOthersWaitShareWhatTheFirstOnesGot) {
  directory.have("a", 0, 1, now);
  std::vector<std::string> waiting;
  std::map<std::string, int> awaited, read;
  for (int i = 0; i < 24; ++i) {
    const std::string node = "r" + std::to_string(i);
    const auto answer = directory.locate(node, 0, 1, kFetch, {}, now);
    EXPECT_EQ(answer.granted, 0);
    if (answer.holderOf(0).empty()) {
      waiting.push_back(node);
      ++awaited[answer.fetcherOf(0)];
    }
  }
  EXPECT_EQ(waiting.size(), 16u);
  EXPECT_EQ(awaited.size(), 8u);
  for (const auto& [node, count] : awaited) {
    EXPECT_EQ(count, 2) << node;
    directory.have(node, 0, 1, now);
  }
  for (const std::string& node : waiting)
    ++read[directory.locate(node, 0, 1, kFetch, {}, now).holderOf(0)];
  EXPECT_EQ(read.size(), 8u);
  for (const auto& [node, count] : read) EXPECT_EQ(count, 2) << node;
}

TEST_F(ReadersTest, ReadsThatEndMakePlace) {
  directory.have("a", 0, 1, now);
  const auto holder = [&](const char* node, FailureReport failure = {}) {
    return directory.locate(node, 0, 1, kRead, failure, now).holderOf(0);
  };
  EXPECT_EQ(holder("b"), "a");
  EXPECT_EQ(holder("c"), "a");
  EXPECT_EQ(holder("d"), "");
  directory.gone("b");
  EXPECT_EQ(holder("d"), "a");
  EXPECT_EQ(holder("e"), "");
  EXPECT_EQ(holder("e", {"c"}), "") << "c may not have begun yet";
  now += 1s;
  EXPECT_EQ(holder("e", {"c"}), "a") << "c does not read it";
  now += ActiveReads::kTimeout + 1s;
  EXPECT_EQ(directory.locate("f", 0, 1, kRead, {}, now).fetcherOf(0), "") << "none reads any more";
}

// It passes on what comes from the origin while it comes, to so many.
TEST_F(ReadersTest, AreSentToWhoFetchesTheChunk) {
  ASSERT_EQ(directory.locate("a", 0, 0b11, kFetch, {}, now).granted, 0b11);
  const auto look = directory.locate("b", 0, 0b11, kLookUp, {}, now);
  EXPECT_EQ(look.arriving, 0b11);
  EXPECT_EQ(look.giverOf(0), "a");
  EXPECT_EQ(look.holderOf(0), "") << "which has not got it yet";
  for (std::size_t i = 0; i < KeyDirectory::kReadersOfArriving; ++i)
    EXPECT_EQ(directory.locate("r" + std::to_string(i), 0, 0b1, kRead, {}, now).giverOf(0), "a");
  const auto late = directory.locate("b", 0, 0b11, kRead, {}, now);
  EXPECT_EQ(late.arriving, 0b10);
  EXPECT_EQ(late.fetcherOf(0).front(), 'r') << "it waits for one of these";
  EXPECT_EQ(late.giverOf(0), "");
  directory.have("r0", 0, 0b1, now);
  EXPECT_EQ(directory.locate("b", 0, 0b1, kRead, {}, now).holderOf(0), "r0");
}

TEST_F(ReadersTest, AreNotSentToWhoHasGivenUp) {
  ASSERT_EQ(directory.locate("a", 0, 0b1, kFetch, {}, now).granted, 0b1);
  ASSERT_EQ(directory.locate("b", 0, 0b1, kRead, {}, now).arriving, 0b1);
  directory.giveUp("a", 0, 0b1);
  const auto answer = directory.locate("b", 0, 0b1, kRead, {}, now);
  EXPECT_EQ(answer.arriving, 0);
  EXPECT_EQ(directory.locate("b", 0, 0b1, kFetch, {}, now).granted, 0b1);
}

// An agent that keeps nothing reads what is there; and a look at everything changes nothing.
TEST_F(ReadersTest, WhoKeepsNothingIsNotSentToWhoFetches) {
  ASSERT_EQ(directory.locate("a", 0, 0b1, kFetch, {}, now).granted, 0b1);
  for (const Intent intent : {kReadThrough, kInspect}) {
    const auto answer = directory.locate("b", 0, 0b1, intent, {}, now);
    EXPECT_EQ(answer.arriving, 0);
    EXPECT_EQ(answer.fetcherOf(0), "a");
  }
}

}  // namespace
}  // namespace hearth
