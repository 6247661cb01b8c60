#include "dataset/source_choice.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr SourceMask kBoth = 0b11;
constexpr std::uint32_t kFile = 7;

struct SourceChoiceTest : testing::Test {
  SourceChoice::Turn begin(SourceMask among = kBoth, std::uint32_t entry = kFile) {
    const auto turn = choice.begin(among, entry, now);
    EXPECT_TRUE(turn.has_value());
    return turn.value_or(SourceChoice::Turn{});
  }
  // Each source gives a MiB, in so long.
  void measure(Clock::duration first, Clock::duration mirror) {
    for (int times = 0; times < 3; ++times) {
      for (const auto& [source, time] : {std::pair{1U, first}, std::pair{2U, mirror}}) {
        const auto turn = begin(source);
        EXPECT_FALSE(choice.succeeded(turn, 1 << 20, turn.begun + time));
      }
    }
  }
  void failOnce(SourceMask source) {
    const auto turn = begin(source);
    choice.failed(turn, 0, "no connection", now);
  }

  SourceChoice choice{2};
  Clock::time_point now = Clock::now();
};

TEST_F(SourceChoiceTest, BeginsWithTheFirstAndFindsOutAboutTheOthers) {
  const auto one = begin();
  EXPECT_EQ(one.source, 0U);
  EXPECT_EQ(begin().source, 1U) << "it has less to do";
  choice.succeeded(one, 1 << 20, now + 10ms);
  EXPECT_EQ(choice.statistics(now)[0].bytes, 1U << 20);
}

TEST_F(SourceChoiceTest, SharesRequestsAsFastAsTheSourcesAre) {
  measure(30ms, 10ms);
  int ofMirror = 0;
  for (int i = 0; i < 8; ++i) ofMirror += begin().source == 1 ? 1 : 0;
  EXPECT_EQ(ofMirror, 6);
  EXPECT_FALSE(choice.begin(0, kFile, now).has_value());
}

TEST_F(SourceChoiceTest, FindsOutAboutOneByASingleRequest) {
  for (int times = 0; times < 3; ++times) {
    const auto turn = begin(1);
    choice.succeeded(turn, 1 << 20, turn.begun + 10ms);
  }
  EXPECT_EQ(begin().source, 1U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(begin().source, 0U) << "the mirror has one under way";
}

TEST_F(SourceChoiceTest, ATurnMayTakeAMultipleOfWhatTheBestTakes) {
  const auto unknown = begin(2);
  EXPECT_FALSE(choice.longestTurn(unknown, 1, 1 << 20, now).has_value());
  choice.abandoned(unknown, 0);
  measure(10ms, 1000ms);
  const auto slow = begin(2);
  const auto longest = choice.longestTurn(slow, 1, 1 << 20, now);
  ASSERT_TRUE(longest.has_value());
  EXPECT_NEAR(std::chrono::duration<double>(*longest).count(), 0.080, 0.001);
  for (int i = 0; i < 3; ++i) begin(1);
  const auto loaded = choice.longestTurn(slow, 1, 1 << 20, now);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_NEAR(std::chrono::duration<double>(*loaded).count(), 0.320, 0.001)
      << "beside what the other has to do";
  choice.abandoned(slow, 0);
  failOnce(1);
  EXPECT_FALSE(choice.longestTurn(slow, 1, 1 << 20, now).has_value()) << "it is put aside";
}

TEST_F(SourceChoiceTest, IsNotAsideInReportsWhenNoneHasWantedItForLong) {
  failOnce(2);
  EXPECT_NE(choice.statistics(now)[1].aside, "");
  now += SourceChoice::kFirstAside + SourceChoice::kRateHolds;
  EXPECT_EQ(choice.statistics(now)[1].aside, "");
  EXPECT_EQ(begin(2).source, 1U) << "it is probed all the same";
}

TEST_F(SourceChoiceTest, WhatAServerAsksForHoldsUntilThen) {
  choice.leaveAlone(0, now + 20s);
  choice.leaveAlone(0, now + 10s);
  EXPECT_EQ(choice.notBefore(0), now + 20s);
  EXPECT_LE(choice.notBefore(1), now);
}

TEST_F(SourceChoiceTest, WhatWasMeasuredLongAgoIsForgotten) {
  measure(10ms, 1000ms);
  EXPECT_EQ(begin().source, 0U);
  now += SourceChoice::kRateHolds + 2s;
  const auto turn = begin();
  EXPECT_EQ(turn.source, 1U) << "nothing is known of either, and the first has something to do";
  choice.succeeded(turn, 1 << 20, now + 10ms);
}

TEST_F(SourceChoiceTest, PutsAsideWhatFailsForATimeThatDoublesAndProbesItOnce) {
  failOnce(0b10);
  for (const auto aside : {1s, 2s, 4s}) {
    EXPECT_EQ(choice.statistics(now)[1].aside, "no connection");
    now += aside - 1ms;
    EXPECT_EQ(begin().source, 0U);
    now += 1ms;
    const auto probe = begin();
    EXPECT_EQ(probe.source, 1U);
    EXPECT_EQ(begin().source, 0U) << "one probe at a time";
    EXPECT_FALSE(choice.failed(probe, 0, "no connection", now)) << "it was aside";
  }
  now += SourceChoice::kLongestAside;
  const auto probe = begin();
  EXPECT_EQ(probe.source, 1U);
  EXPECT_TRUE(choice.succeeded(probe, 1, now + 1ms));
  EXPECT_EQ(choice.statistics(now)[1].aside, "");
  EXPECT_EQ(choice.statistics(now)[1].failures, 4U);
  const auto again = begin(0b10);
  EXPECT_TRUE(choice.failed(again, 0, "no connection", now + 2ms)) << "it was well";
}

TEST_F(SourceChoiceTest, AFailureOfAllThatWasUnderWayIsOne) {
  const auto one = begin(0b10);
  const auto two = begin(0b10);
  const auto late = begin(0b10);
  now += 1ms;
  EXPECT_TRUE(choice.failed(one, 0, "gone", now));
  EXPECT_FALSE(choice.failed(two, 0, "gone", now));
  EXPECT_FALSE(choice.succeeded(late, 1, now)) << "what began before says nothing of it now";
  now += 1s;
  EXPECT_EQ(begin().source, 1U) << "after the first, shortest time";
}

TEST_F(SourceChoiceTest, AFailureOfAllHedgesThatWereUnderWayIsOne) {
  const auto begun = now;
  now += 1ms;
  EXPECT_TRUE(choice.brokeOff(1, begun, "gone", now));
  now += 1ms;
  EXPECT_FALSE(choice.brokeOff(1, begun, "gone", now));
  EXPECT_EQ(choice.usable(kBoth, kFile, now), 0b01U);
  now += 1s;
  EXPECT_EQ(choice.usable(kBoth, kFile, now), kBoth) << "after the first, shortest time";
}

TEST_F(SourceChoiceTest, AsksTheOneThatIsBackFirstWhenAllAreAside) {
  failOnce(0b01);
  now += 10ms;
  failOnce(0b10);
  EXPECT_EQ(begin().source, 0U);
  EXPECT_FALSE(choice.beside(begin(), kBoth, kFile, now).has_value());
}

TEST_F(SourceChoiceTest, IsNotAskedAgainForWhatItLacks) {
  const auto turn = begin(0b10);
  EXPECT_TRUE(choice.lacks(turn, kFile, "404", now)) << "said once";
  EXPECT_FALSE(choice.begin(0b10, kFile, now).has_value());
  EXPECT_FALSE(choice.beside(begin(0b01), kBoth, kFile, now).has_value());
  EXPECT_EQ(begin(0b10, kFile + 1).source, 1U);
  EXPECT_EQ(choice.statistics(now)[1].aside, "") << "it has other files";
  EXPECT_FALSE(choice.unproved(1, kFile, now)) << "counted already";
  EXPECT_FALSE(choice.unproved(1, kFile + 2, now));
  EXPECT_EQ(choice.statistics(now)[1].unproved, 2U);
  now += SourceChoice::kLacksHolds;
  EXPECT_EQ(begin(0b10).source, 1U);
}

TEST_F(SourceChoiceTest, PutsAsideWhatLacksOneFileAfterTheOther) {
  for (std::uint32_t entry = 0; entry < SourceChoice::kLacksInRow; ++entry) {
    choice.lacks(begin(0b10, entry), entry, "another ETag", now);
  }
  EXPECT_EQ(choice.statistics(now)[1].aside, "another ETag");
  EXPECT_EQ(begin(kBoth, 100).source, 0U);
}

TEST_F(SourceChoiceTest, PutsAsideWhatIsSlowAndForLongWhatLied) {
  const auto turn = begin(0b01);
  EXPECT_EQ(choice.beside(turn, kBoth, kFile, now), 1U);
  EXPECT_TRUE(choice.straggled(turn, 100, 1, 60, now));
  const auto counts = choice.statistics(now);
  EXPECT_EQ(counts[0].bytes, 40U);
  EXPECT_EQ(counts[1].bytes, 60U) << "they came from there";
  EXPECT_EQ(counts[0].stragglers, 1U);
  EXPECT_TRUE(choice.suspected(1, "wrong bytes", now));
  now += 2min;
  EXPECT_EQ(begin().source, 0U);
  EXPECT_EQ(choice.statistics(now)[1].aside, "wrong bytes");
}

TEST_F(SourceChoiceTest, ThatOneAnswersDoesNotEndASuspicion) {
  EXPECT_TRUE(choice.suspected(1, "wrong bytes", now));
  EXPECT_FALSE(choice.suspected(1, "wrong bytes", now)) << "known";
  const auto inOrder = begin(0b10);
  EXPECT_EQ(inOrder.source, 1U) << "there is no other";
  now += 1ms;
  EXPECT_FALSE(choice.succeeded(inOrder, 1 << 20, now));
  EXPECT_EQ(choice.statistics(now)[1].aside, "wrong bytes");
  EXPECT_EQ(choice.usable(kBoth, kFile, now), 0b01U);
  EXPECT_EQ(choice.answering(kBoth, now), kBoth);
  EXPECT_FALSE(choice.well(1, now));
  failOnce(0b01);
  EXPECT_EQ(begin().source, 0U) << "one that fails rather than one that may lie";
  EXPECT_EQ(choice.answering(kBoth, now), 0b10U);
  now += SourceChoice::kSuspicionHolds;
  EXPECT_TRUE(choice.well(1, now));
  EXPECT_EQ(choice.statistics(now)[1].aside, "");
}

TEST_F(SourceChoiceTest, WhoWasNotToBlameIsAskedAgain) {
  EXPECT_TRUE(choice.lied(1, "wrong bytes", now));
  choice.cleared(1);
  EXPECT_FALSE(choice.well(1, now)) << "it is known to lie, not suspected";
  EXPECT_FALSE(choice.lied(1, "wrong bytes of another file", now));
  choice.acquitted(1);
  EXPECT_FALSE(choice.well(1, now)) << "of the other file they were wrong";
  choice.acquitted(1);
  EXPECT_TRUE(choice.well(1, now));
  EXPECT_TRUE(choice.suspected(1, "wrong bytes", now));
  choice.cleared(1);
  EXPECT_TRUE(choice.well(1, now));
}

TEST_F(SourceChoiceTest, WhoLiedIsAskedForNothingThoughAllOthersFail) {
  EXPECT_TRUE(choice.lied(1, "wrong bytes", now));
  EXPECT_FALSE(choice.lied(1, "wrong bytes", now)) << "known";
  failOnce(0b01);
  for (const auto after : {0s, 256s, 3000s}) {
    now += after;
    EXPECT_EQ(choice.liars(kBoth, now), 0b10U);
    EXPECT_EQ(choice.usable(kBoth, kFile, now), 0b01U);
    EXPECT_FALSE(choice.begin(0b10, kFile, now).has_value());
    EXPECT_FALSE(choice.well(1, now));
    EXPECT_EQ(choice.statistics(now)[1].aside, "wrong bytes");
  }
  now += SourceChoice::kLieHolds;
  EXPECT_EQ(choice.liars(kBoth, now), 0U);
  EXPECT_EQ(choice.statistics(now)[1].aside, "");
}

TEST_F(SourceChoiceTest, WhoLiedIsNotAskedForWhatWaitsForAConnectionEither) {
  const auto queued = begin(0b10);
  EXPECT_TRUE(choice.wanted(queued));
  now += 1ms;
  EXPECT_TRUE(choice.lied(1, "wrong bytes", now));
  EXPECT_FALSE(choice.wanted(queued));
}

TEST_F(SourceChoiceTest, OneThatIsAsideIsNoUseWhileAnotherIsWell) {
  failOnce(0b10);
  EXPECT_EQ(choice.usable(kBoth, kFile, now), 0b01U);
  EXPECT_EQ(choice.usable(0b10, kFile, now), 0b10U) << "there is no other";
  now += SourceChoice::kFirstAside;
  EXPECT_EQ(choice.usable(kBoth, kFile, now), kBoth) << "it is due to be probed";
  const auto probe = begin();
  EXPECT_TRUE(choice.wanted(probe));
  EXPECT_EQ(choice.usable(kBoth, kFile, now), 0b01U) << "once";
  const auto queued = begin(0b10);
  now += 1ms;
  choice.failed(probe, 0, "no connection", now);
  EXPECT_FALSE(choice.wanted(queued)) << "put aside again since it began";
}

TEST_F(SourceChoiceTest, IsPutAsideWhenItRefusesOneRequestAfterTheOther) {
  for (int times = 1; times < SourceChoice::kLacksInRow; ++times) {
    EXPECT_FALSE(choice.refused(begin(0b01), 0, "403", now));
  }
  EXPECT_EQ(choice.statistics(now)[0].aside, "");
  EXPECT_TRUE(choice.refused(begin(0b01), 0, "403", now));
  EXPECT_EQ(choice.statistics(now)[0].aside, "403");
  EXPECT_EQ(begin(0b01).source, 0U) << "for no entry it is left out";
}

TEST_F(SourceChoiceTest, AProbeThatIsGivenUpLeavesItAside) {
  failOnce(0b10);
  now += 1s;
  choice.abandoned(begin(), 0);
  EXPECT_EQ(begin().source, 1U);
  EXPECT_EQ(choice.statistics(now)[1].aside, "no connection");
}

}  // namespace
}  // namespace hearth
