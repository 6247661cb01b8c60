#include "fetch/source_rounds.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr auto kWhy = "it is not what the dataset's digest says";

std::shared_ptr<const SourceSet> setOf(std::size_t sources) {
  std::vector<SourceSet::Source> all(sources);
  for (std::size_t at = 0; at < sources; ++at) all[at].name = "mirror-" + std::to_string(at);
  return std::make_shared<const SourceSet>(std::move(all));
}

struct SourceRoundsTest : testing::Test {
  // All of the file came from these sources, and was wrong. True: it is so everywhere.
  bool wrong(SourceMask givers) {
    rounds.gave(set, givers);
    (void)rounds.wrong(kWhy, now);
    return rounds.everywhere(set, usable());
  }
  [[nodiscard]] SourceMask usable() const { return set->choice.mayHave(~SourceMask{0}, 0, now); }
  // The source to ask next when all answer.
  SourceMask next(SourceMask due = ~SourceMask{0}) {
    const SourceMask admitted = rounds.order(set)->admitted(usable(), now);
    return rounds.order(set)->next(admitted, due & admitted, admitted);
  }

  Clock::time_point now = Clock::now();
  std::shared_ptr<const SourceSet> set = setOf(3);
  SourceRounds rounds;
};

TEST_F(SourceRoundsTest, BeginWithTheFirstAndGoOnWithTheNext) {
  EXPECT_EQ(rounds.order(set), nullptr) << "nothing was wrong";
  EXPECT_FALSE(wrong(0b111));
  EXPECT_TRUE(rounds.inOrder());
  EXPECT_EQ(next(), 0b001U);
  EXPECT_EQ(next(), 0b001U);
  EXPECT_FALSE(wrong(0b001));
  EXPECT_EQ(next(), 0b010U);
}

TEST_F(SourceRoundsTest, SkipOnlyASourceThatGaveAllWrong) {
  EXPECT_FALSE(wrong(0b011));
  EXPECT_FALSE(wrong(0b011)) << "another filled in";
  EXPECT_FALSE(wrong(0b010)) << "the mirror alone";
  EXPECT_EQ(next(), 0b100U);
  EXPECT_FALSE(wrong(0b100));
  EXPECT_EQ(next(), 0b001U) << "which was never tried alone";
  EXPECT_TRUE(wrong(0b001));
}

TEST_F(SourceRoundsTest, EndEvenIfNoGiverIsEverKnown) {
  for (std::size_t round = 0; round < 6; ++round) EXPECT_FALSE(wrong(0b111)) << round;
  EXPECT_TRUE(wrong(0b111));
}

TEST_F(SourceRoundsTest, CountForTheirOwnSetOfSources) {
  for (std::size_t round = 0; round < 5; ++round) EXPECT_FALSE(wrong(0b111)) << round;
  set = setOf(2);
  for (std::size_t round = 0; round < 4; ++round) EXPECT_FALSE(wrong(0b11)) << round;
  EXPECT_TRUE(wrong(0b11));
}

TEST_F(SourceRoundsTest, ASingleSourceIsReadTwice) {
  set = setOf(1);
  EXPECT_FALSE(wrong(1)) << "it may have changed meanwhile";
  EXPECT_TRUE(wrong(1));
}

TEST_F(SourceRoundsTest, BeginAgainAfterARefusal) {
  EXPECT_FALSE(wrong(0b111));
  for (const SourceMask source : {0b001U, 0b010U}) EXPECT_FALSE(wrong(source));
  ASSERT_TRUE(wrong(0b100));
  rounds.again();
  EXPECT_EQ(next(), 0b001U);
  EXPECT_FALSE(wrong(0b001)) << "one of three";
  EXPECT_EQ(next(), 0b010U);
}

TEST_F(SourceRoundsTest, StayWithASourceUntilItGivesUpOrAsksToBeLeftAlone) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_EQ(next(), 0b001U);
  EXPECT_EQ(next(0b110), 0b010U) << "the first asked to be left alone";
  EXPECT_EQ(next(), 0b010U);
  EXPECT_EQ(next(0), 0b010U) << "so did all";
  rounds.order(set)->gaveUp(1);
  EXPECT_FALSE(rounds.order(set)->stands(1));
  EXPECT_EQ(next(), 0b001U);
  rounds.order(set)->gaveUp(0);
  rounds.order(set)->gaveUp(2);
  EXPECT_NE(next(), 0U) << "all gave up, and are asked as often again";
  EXPECT_TRUE(rounds.order(set)->stands(0));
}

TEST_F(SourceRoundsTest, BeginWithASourceThatAnswers) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_EQ(rounds.order(set)->next(0b111, 0b111, 0b100), 0b100U);
  EXPECT_EQ(rounds.order(set)->next(0b111, 0b111, 0b111), 0b100U) << "for the whole round";
}

TEST_F(SourceRoundsTest, AskASourceThatWasWrongLongAgoOnceOthersGaveUp) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_FALSE(wrong(0b001));
  EXPECT_EQ(rounds.order(set)->admitted(0b111, now), 0b110U);
  rounds.order(set)->gaveUp(1);
  rounds.order(set)->gaveUp(2);
  EXPECT_EQ(rounds.order(set)->admitted(0b111, now), 0b110U);
  now += SourceOrder::kWrongHolds;
  EXPECT_EQ(rounds.order(set)->admitted(0b111, now), 0b111U);
}

TEST_F(SourceRoundsTest, GoOnWhenTheFileIsOpenedAgain) {
  EXPECT_FALSE(wrong(0b111));
  rounds.gave(set, 0b010);
  rounds.open(true);
  EXPECT_FALSE(wrong(0b001)) << "of what is here some came of the mirror";
  rounds.gave(set, 0b001);
  rounds.open(false);
  EXPECT_FALSE(wrong(0b010)) << "the mirror alone, as nothing was left of the first's";
  EXPECT_EQ(set->choice.liars(0b111, now), 0b010U);
  EXPECT_FALSE(wrong(0b001));
  rounds.open(false);
  EXPECT_TRUE(wrong(0b100)) << "all were wrong, whoever wanted it then";
}

TEST_F(SourceRoundsTest, DoNotKeepTheSourcesOfADatasetThatIsGone) {
  rounds.gave(set, 0b001);
  const std::weak_ptr<const SourceSet> gone = set;
  set = setOf(2);
  EXPECT_TRUE(gone.expired());
  EXPECT_FALSE(wrong(0b010)) << "some of it came of another";
  EXPECT_EQ(set->choice.liars(0b11, now), 0U);
}

TEST_F(SourceRoundsTest, AMirrorIsALiarOnlyWhenItGaveAll) {
  (void)wrong(0b011);
  EXPECT_EQ(set->choice.liars(0b111, now), 0U);
  EXPECT_NE(set->choice.statistics(now)[1].aside, "");
  rounds.gaveOthers();
  (void)wrong(0b010);
  EXPECT_EQ(set->choice.liars(0b111, now), 0U) << "of the rest it is not known";
  const auto single = setOf(1);
  rounds.gave(single, 0b1);
  (void)wrong(0b010);
  EXPECT_EQ(set->choice.liars(0b111, now), 0U) << "before the dataset had mirrors";
  (void)wrong(0b010);
  EXPECT_EQ(set->choice.liars(0b111, now), 0b010U);
}

TEST_F(SourceRoundsTest, ARightFileClearsItsOnlyGiver) {
  (void)wrong(0b111);
  EXPECT_FALSE(set->choice.well(1, now));
  EXPECT_FALSE(set->choice.well(2, now));
  rounds.gave(set, 0b010);
  rounds.right();
  EXPECT_TRUE(set->choice.well(1, now));
  EXPECT_FALSE(set->choice.well(2, now)) << "it may have been this one";
  EXPECT_FALSE(rounds.inOrder());
}

TEST_F(SourceRoundsTest, BlameTheDigestWhereAllSourcesAreWrong) {
  (void)set->choice.lied(2, "another file", now);
  EXPECT_FALSE(wrong(0b010)) << "all of it by chance";
  EXPECT_EQ(set->choice.liars(0b111, now), 0b110U);
  ASSERT_TRUE(wrong(0b001));
  rounds.again();
  EXPECT_EQ(set->choice.liars(0b111, now), 0b100U) << "for the other file";
  EXPECT_TRUE(set->choice.well(1, now));
}

TEST_F(SourceRoundsTest, SuspectTheDigestWhereTheFirstIsWrongToo) {
  EXPECT_FALSE(wrong(0b010)) << "all of it by chance";
  EXPECT_EQ(set->choice.liars(0b111, now), 0b010U);
  EXPECT_FALSE(wrong(0b001)) << "the third did not answer";
  EXPECT_EQ(set->choice.liars(0b111, now), 0U);
  EXPECT_FALSE(set->choice.well(1, now)) << "it is suspected";
  EXPECT_EQ(next(), 0b100U) << "of both all of it was wrong";

  set = setOf(3);
  for (const SourceMask givers : {0b111U, 0b001U, 0b010U}) EXPECT_FALSE(wrong(givers));
  EXPECT_EQ(set->choice.liars(0b111, now), 0U);
  EXPECT_FALSE(set->choice.well(1, now));
}

TEST_F(SourceRoundsTest, ALiarAboutAnotherFileStaysALiar) {
  SourceRounds another;
  (void)wrong(0b011);
  (void)wrong(0b010);
  another.gave(set, 0b010);
  (void)another.wrong(kWhy, now);
  (void)set->choice.lied(2, "a third", now);
  EXPECT_TRUE(wrong(0b001));
  rounds.again();
  EXPECT_EQ(set->choice.liars(0b111, now), 0b110U);
}

TEST_F(SourceRoundsTest, ASuspicionDoesNotClearALiar) {
  SourceRounds another;
  (void)wrong(0b111);
  another.gave(set, 0b010);
  (void)another.wrong(kWhy, now);
  (void)wrong(0b001);
  EXPECT_TRUE(wrong(0b100));
  rounds.again();
  EXPECT_EQ(set->choice.liars(0b111, now), 0b010U);
}

}  // namespace
}  // namespace hearth
