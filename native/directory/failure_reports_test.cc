// Reports of agents about holders that failed them.
#include <gtest/gtest.h>

#include "directory/testing/key_directory_fixture.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using enum Intent;

struct FailureReportsTest : directory_testing::KeyDirectoryFixture {
  // `node` could not read the first chunk from "a".
  void reportFailure(const std::string& node) {
    (void)directory.locate(node, 0, 1, kLookUp, {"a", true}, now);
  }
};

TEST_F(FailureReportsTest, AHolderThatFailsIsNotNamedAgain) {
  directory.have("a", 0, 0b111, now);
  const auto answer = directory.locate("b", 0, 0b011, kFetch, {"a", true}, now);
  EXPECT_TRUE(answer.holders.empty());
  EXPECT_EQ(answer.granted, 0b011);
  EXPECT_EQ(directory.locate("b", 0, 0b100, kFetch, {}, now).holderOf(2), "a")
      << "what it was not asked for it still has";
}

// Its own disk may be full, or only its own way there be cut.
TEST_F(FailureReportsTest, WhatOneAgentSaysOfAHolderHoldsForItAlone) {
  directory.have("a", 0, 0b1, now);
  EXPECT_EQ(directory.locate("b", 0, 1, kRead, {}, now).holderOf(0), "a");
  EXPECT_EQ(directory.locate("b", 0, 1, kLookUp, {"a", true}, now).holderOf(0), "");
  for (const char* node : {"c", "d", "e"})
    EXPECT_EQ(directory.locate(node, 0, 1, kLookUp, {}, now).holderOf(0), "a") << node;
  now += FailureReports::kLifetime - 1s;
  EXPECT_EQ(directory.locate("b", 0, 1, kLookUp, {}, now).holderOf(0), "") << "not there again yet";
  now += 1s;
  EXPECT_EQ(directory.locate("b", 0, 1, kLookUp, {}, now).holderOf(0), "a") << "tried once more";
}

TEST_F(FailureReportsTest, WhatSeveralSayOfAHolderIsNotTrueForThat) {
  directory.have("a", 0, 0b11, now);
  for (const char* node : {"b", "c", "d"})
    EXPECT_EQ(directory.locate(node, 0, 1, kLookUp, {"a", true}, now).holderOf(0), "");
  EXPECT_EQ(directory.locate("e", 0, 1, kLookUp, {}, now).holderOf(0), "a");
}

TEST_F(FailureReportsTest, OneThatSeveralReportIsAskedOnceInAWhile) {
  directory.have("a", 0, 0b1, now);
  for (int again = 0; again < 3; ++again) reportFailure("b");
  EXPECT_TRUE(directory.suspects(now).empty()) << "b is but one";
  reportFailure("c");
  EXPECT_EQ(directory.suspects(now), (std::vector<std::string>{"a"}));
  reportFailure("b");
  EXPECT_TRUE(directory.suspects(now).empty()) << "it has just been asked";
  now += KeyDirectory::kAskAgain;
  EXPECT_EQ(directory.suspects(now), (std::vector<std::string>{"a"}));
  EXPECT_TRUE(directory.suspects(now + 1min).empty());
  reportFailure("c");
  directory.gone("a");
  EXPECT_TRUE(directory.suspects(now + 1min).empty());
}

TEST_F(FailureReportsTest, WhatWasSaidLongAgoAgreesWithNothing) {
  directory.have("a", 0, 0b1, now);
  reportFailure("b");
  now += FailureReports::kLifetime;
  reportFailure("c");
  EXPECT_TRUE(directory.suspects(now).empty());
}

TEST_F(FailureReportsTest, AHolderIsBelievedWhatItHolds) {
  directory.have("a", 0, 0b11, now);
  directory.have("a", 1, 0b1, now);
  directory.correct("a", {.wants = false, .held = {0b10}, .fetching = {}}, now + 1s);
  EXPECT_EQ(directory.locate("d", 0, 0b11, kLookUp, {}, now).holders,
            (std::vector<StripeHolder>{{"a", 0b10}}));
  EXPECT_EQ(directory.locate("d", 1, 1, kLookUp, {}, now).holderOf(16), "");
  // A report made while the answer was on its way is newer than the answer.
  directory.have("a", 0, 0b111, now + 3s);
  directory.correct("a", {.wants = false, .held = {0b11}, .fetching = {}}, now + 2s);
  EXPECT_EQ(directory.locate("d", 0, 0b100, kLookUp, {}, now + 3s).holderOf(2), "a");
  directory.correct("a", {.wants = false, .held = {0xffff, 0xffff, 0xffff}, .fetching = {}},
                    now + 4s);
  EXPECT_EQ(directory.locate("d", 1, 0b1, kLookUp, {}, now + 4s).holderOf(16), "a");
}

TEST_F(FailureReportsTest, AHolderThatAnswersNoAgentIsNotNamedForAWhile) {
  directory.have("a", 0, 0b1, now);
  const auto holder = [&] { return directory.locate("d", 0, 1, kLookUp, {}, now).holderOf(0); };
  directory.unanswered("a", now);
  EXPECT_EQ(holder(), "");
  now += FailureReports::kLifetime;
  EXPECT_EQ(holder(), "a") << "tried once more";
  directory.unanswered("a", now);
  directory.have("a", 0, 0b1, now);
  EXPECT_EQ(holder(), "a") << "it is there";
}

// B cannot reach A, but C can: what C reads B gets from C, so that the origin is read by neither.
TEST_F(FailureReportsTest, WhoCannotReachTheOnlyHolderWaitsForAReaderThatCan) {
  directory.have("a", 0, 0b1, now);
  EXPECT_EQ(directory.locate("c", 0, 1, kRead, {}, now).holderOf(0), "a");
  for (const Intent intent : {kLookUp, kRead, kFetch}) {
    const auto answer = directory.locate("b", 0, 1, intent, {"a", true}, now);
    EXPECT_EQ(answer.fetcherOf(0), "c");
    EXPECT_EQ(answer.granted, 0);
  }
  directory.have("c", 0, 0b1, now);
  EXPECT_EQ(directory.locate("b", 0, 1, kRead, {}, now).holderOf(0), "c");
}

TEST_F(FailureReportsTest, WhoCannotReachTheOnlyHolderFetchesWhenNoOtherReads) {
  directory.have("a", 0, 0b1, now);
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {"a", true}, now).granted, 0b1);
  EXPECT_EQ(directory.locate("c", 0, 1, kFetch, {}, now).holderOf(0), "a");
}

// B cannot reach A, which fetches. While B cannot fetch itself, A's grant stays for the others.
TEST_F(FailureReportsTest, SuspicionOfOneAgentTakesAGrantOnlyToFetch) {
  (void)directory.locate("a", 0, 1, kFetch, {}, now);
  (void)directory.locate("b", 0, 1, kLookUp, {"a"}, now);
  EXPECT_EQ(directory.locate("c", 0, 1, kFetch, {"a"}, now + 1s).fetcherOf(0), "a")
      << "c has only begun to doubt";
  EXPECT_EQ(directory.locate("b", 0, 1, kLookUp, {"a"}, now + 1s).fetcherOf(0), "");
  EXPECT_EQ(directory.locate("d", 0, 1, kFetch, {}, now + 1s).fetcherOf(0), "a");
  EXPECT_EQ(directory.locate("b", 0, 1, kFetch, {}, now + 1s).granted, 1)
      << "it has doubted before";
}

TEST_F(FailureReportsTest, FailureReportsAreBounded) {
  FailureReports reports;
  for (std::uint32_t chunk = 0; chunk < 100'000; ++chunk) {
    now += 100ms;
    (void)reports.note(chunk, "b", "a", now);
  }
  EXPECT_LE(reports.size(), 1024u);
  reports.forget("a");
  EXPECT_EQ(reports.size(), 0u);
}

}  // namespace
}  // namespace hearth
