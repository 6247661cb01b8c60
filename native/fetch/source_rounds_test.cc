#include "fetch/source_rounds.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr auto kWhy = "model is not what the dataset's digest says";

std::shared_ptr<const SourceSet> setOf(std::size_t sources) {
  std::vector<SourceSet::Source> all(sources);
  for (std::size_t at = 0; at < sources; ++at) all[at].name = "mirror-" + std::to_string(at);
  return std::make_shared<const SourceSet>(std::move(all));
}

struct SourceRoundsTest : testing::Test {
  [[nodiscard]] SourceRanking::View look() const {
    return set->ranking.look(~SourceMask{0}, 0, now);
  }
  // All of the file came from these sources, and was wrong. True: it is so everywhere.
  bool wrong(SourceMask givers) {
    rounds.gave(set, givers);
    (void)rounds.wrong(kWhy, now);
    return rounds.everywhere(set, look().having);
  }
  SourceMask next() { return rounds.next(set, look(), now); }

  Clock::time_point now = Clock::now();
  std::shared_ptr<const SourceSet> set = setOf(3);
  SourceRounds rounds;
};

TEST_F(SourceRoundsTest, BeginWithTheFirstAndGoOnWithTheNext) {
  EXPECT_FALSE(rounds.inOrder()) << "nothing was wrong";
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

TEST_F(SourceRoundsTest, StayWithASourceUntilItGivesUp) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_EQ(next(), 0b001U);
  rounds.gaveUp(0);
  EXPECT_FALSE(rounds.stands(0));
  EXPECT_EQ(next(), 0b010U);
  EXPECT_EQ(next(), 0b010U);
  rounds.gaveUp(1);
  rounds.gaveUp(2);
  EXPECT_NE(next(), 0U) << "all gave up, and are asked as often again";
  EXPECT_TRUE(rounds.stands(0));
}

TEST_F(SourceRoundsTest, BeginWithASourceThatAnswers) {
  EXPECT_FALSE(wrong(0b111));
  SourceRanking::View view = look();
  view.answering = 0b100;
  EXPECT_EQ(rounds.next(set, view, now), 0b100U);
  EXPECT_EQ(next(), 0b100U) << "for the whole round";
}

TEST_F(SourceRoundsTest, AskASourceThatWasWrongAgainAfterLong) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_FALSE(wrong(0b001));
  rounds.gaveUp(1);
  rounds.gaveUp(2);
  EXPECT_EQ(next() & 0b001, 0U);
  now += SourceRounds::kWrongHolds;
  rounds.gaveUp(1);
  rounds.gaveUp(2);
  EXPECT_EQ(next(), 0b001U);
}

TEST_F(SourceRoundsTest, GoOnWhenTheFileIsOpenedAgain) {
  EXPECT_FALSE(wrong(0b111));
  rounds.gave(set, 0b010);
  rounds.open(true);
  EXPECT_FALSE(wrong(0b001)) << "of what is here some came of the mirror";
  rounds.gave(set, 0b001);
  rounds.open(false);
  EXPECT_FALSE(wrong(0b010)) << "the mirror alone, as nothing was left of the first's";
  EXPECT_EQ(look().lied, 0b010U);
  EXPECT_FALSE(wrong(0b001));
  rounds.open(false);
  EXPECT_TRUE(wrong(0b100)) << "all were wrong, whoever wanted it then";
}

TEST_F(SourceRoundsTest, GoOnWithTheSetOfAnotherDatasetThatHasTheSameMirrors) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_FALSE(wrong(0b001));
  const std::weak_ptr<const SourceSet> gone = set;
  set = setOf(3);
  EXPECT_TRUE(gone.expired()) << "the rounds do not keep it";
  EXPECT_EQ(next(), 0b010U);
  EXPECT_FALSE(wrong(0b010));
  EXPECT_TRUE(wrong(0b100));
}

TEST_F(SourceRoundsTest, BlameNobodyOnceTheMirrorsAreOthers) {
  EXPECT_FALSE(wrong(0b111));
  rounds.gave(set, 0b010);
  set = setOf(2);
  EXPECT_FALSE(wrong(0b010)) << "some of it came of another set";
  EXPECT_EQ(look().lied, 0U);
}

TEST_F(SourceRoundsTest, AMirrorIsALiarOnlyWhenItGaveAll) {
  EXPECT_FALSE(wrong(0b011));
  EXPECT_EQ(look().lied, 0U);
  EXPECT_NE(set->ranking.statistics(now)[1].aside, "");
  rounds.gaveOthers();
  EXPECT_FALSE(wrong(0b010));
  EXPECT_EQ(look().lied, 0U) << "of the rest it is not known";
  EXPECT_FALSE(wrong(0b010));
  EXPECT_EQ(look().lied, 0b010U);
}

TEST_F(SourceRoundsTest, ARightFileClearsItsOnlyGiver) {
  EXPECT_FALSE(wrong(0b111));
  EXPECT_EQ(look().healthy, 0b001U);
  rounds.gave(set, 0b010);
  rounds.right();
  EXPECT_EQ(look().healthy, 0b011U) << "it may have been the other one";
  EXPECT_FALSE(rounds.inOrder());
}

TEST_F(SourceRoundsTest, BlameTheDigestWhereAllSourcesAreWrong) {
  (void)set->ranking.distrust(2, true, "another file", now);
  EXPECT_FALSE(wrong(0b010)) << "all of it by chance";
  EXPECT_EQ(look().lied, 0b110U);
  ASSERT_TRUE(wrong(0b001));
  rounds.again();
  EXPECT_EQ(look().lied, 0b100U) << "for the other file";
  EXPECT_EQ(look().healthy, 0b011U);
}

TEST_F(SourceRoundsTest, SuspectTheDigestWhereTheFirstIsWrongToo) {
  EXPECT_FALSE(wrong(0b010)) << "all of it by chance";
  EXPECT_EQ(look().lied, 0b010U);
  EXPECT_FALSE(wrong(0b001)) << "the third did not answer";
  EXPECT_EQ(look().lied, 0U);
  EXPECT_EQ(look().healthy, 0b101U) << "it is suspected";
  EXPECT_EQ(next(), 0b100U) << "of both all of it was wrong";
}

TEST_F(SourceRoundsTest, SuspectTheDigestWhereTheFirstWasWrongBefore) {
  for (const SourceMask givers : {0b111U, 0b001U, 0b010U}) EXPECT_FALSE(wrong(givers));
  EXPECT_EQ(look().lied, 0U);
  EXPECT_EQ(look().healthy & 0b010, 0U);
}

}  // namespace
}  // namespace hearth
