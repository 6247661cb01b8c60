#include "dataset/source_ranking.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using Outcome = SourceRanking::Outcome;

constexpr SourceMask kBoth = 0b11;
constexpr std::uint32_t kFile = 7;
constexpr std::uint64_t kMebibyte = 1 << 20;

struct SourceRankingTest : testing::Test {
  SourceRanking::Turn begin(SourceMask among = kBoth) {
    return ranking.begin(look(among).usable(), now);
  }
  [[nodiscard]] SourceRanking::View look(SourceMask among = kBoth,
                                         std::uint32_t entry = kFile) const {
    return ranking.look(among, entry, now);
  }
  bool give(const SourceRanking::Turn& turn, Clock::duration time) {
    return ranking.end(turn, Outcome::kGave, kMebibyte, "", turn.begun + time);
  }
  // Each source gives a MiB, in so long.
  void measure(Clock::duration first, Clock::duration mirror) {
    for (int times = 0; times < 3; ++times) {
      EXPECT_FALSE(give(ranking.begin(0b01, now), first));
      EXPECT_FALSE(give(ranking.begin(0b10, now), mirror));
    }
  }
  bool fail(const SourceRanking::Turn& turn) {
    return ranking.end(turn, Outcome::kFailed, 0, "no connection", now);
  }
  void failOnce(SourceMask source) { fail(ranking.begin(source, now)); }
  [[nodiscard]] std::string aside(std::size_t source) const {
    return ranking.statistics(now)[source].aside;
  }

  SourceRanking ranking{2};
  Clock::time_point now = Clock::now();
};

TEST_F(SourceRankingTest, BeginsWithTheFirstAndFindsOutAboutTheOthers) {
  const auto one = begin();
  EXPECT_EQ(one.source, 0U);
  EXPECT_EQ(begin().source, 1U) << "it has less to do";
  give(one, 10ms);
  EXPECT_EQ(ranking.statistics(now)[0].bytes, kMebibyte);
}

TEST_F(SourceRankingTest, SharesRequestsAsFastAsTheSourcesAre) {
  measure(30ms, 10ms);
  int ofMirror = 0;
  for (int i = 0; i < 8; ++i) ofMirror += begin().source == 1 ? 1 : 0;
  EXPECT_EQ(ofMirror, 6);
}

TEST_F(SourceRankingTest, FindsOutAboutOneByASingleRequest) {
  for (int times = 0; times < 3; ++times) give(begin(0b01), 10ms);
  EXPECT_EQ(begin().source, 1U);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(begin().source, 0U) << "the mirror has one under way";
}

TEST_F(SourceRankingTest, ForgetsWhatWasMeasuredLongAgo) {
  measure(10ms, 1000ms);
  const auto first = begin();
  EXPECT_EQ(first.source, 0U);
  now += SourceRanking::kRateHolds + 2s;
  EXPECT_EQ(begin().source, 1U) << "nothing is known of either, and the first has something to do";
}

TEST_F(SourceRankingTest, ATurnMayTakeAMultipleOfWhatTheBestTakes) {
  const auto unknown = begin(0b10);
  EXPECT_FALSE(ranking.patience(unknown, 0b01, kMebibyte, now).has_value());
  ranking.end(unknown, Outcome::kUndecided, 0, "", now);
  measure(10ms, 1000ms);
  const auto slow = ranking.begin(0b10, now);
  const auto seconds = [&] {
    const auto longest = ranking.patience(slow, 0b01, kMebibyte, now);
    return std::chrono::duration<double>(longest.value_or(Clock::duration::zero())).count();
  };
  EXPECT_NEAR(seconds(), 0.080, 0.001);
  for (int i = 0; i < 3; ++i) (void)ranking.begin(0b01, now);
  EXPECT_NEAR(seconds(), 0.320, 0.001) << "beside the other's requests";
}

TEST_F(SourceRankingTest, SetsAsideWhatFailsForATimeThatDoublesAndTriesItOnce) {
  failOnce(0b10);
  for (const auto pause : {1s, 2s, 4s}) {
    EXPECT_EQ(aside(1), "no connection");
    now += pause - 1ms;
    EXPECT_EQ(look().usable(), 0b01U);
    now += 1ms;
    EXPECT_EQ(look().usable(), kBoth);
    failOnce(0b10);
  }
  now += SourceRanking::kLongestAside;
  const auto busy = ranking.begin(0b01, now);
  EXPECT_EQ(busy.source, 0U);
  const auto tried = begin();
  EXPECT_EQ(tried.source, 1U);
  EXPECT_EQ(look().usable(), 0b01U) << "one request tries it";
  EXPECT_TRUE(give(tried, 1ms)) << "it is back";
  EXPECT_EQ(aside(1), "");
  EXPECT_EQ(ranking.statistics(now)[1].failures, 4U);
  EXPECT_TRUE(fail(ranking.begin(0b10, now + 2ms))) << "it was well";
}

TEST_F(SourceRankingTest, IsNotAsideInReportsWhenNoneHasWantedItForLong) {
  failOnce(0b10);
  now += SourceRanking::kFirstAside + SourceRanking::kRateHolds;
  EXPECT_EQ(aside(1), "");
  EXPECT_EQ(look().due, 0b10U);
}

TEST_F(SourceRankingTest, AFailureOfAllThatWasUnderWayIsOne) {
  const auto one = ranking.begin(0b10, now);
  const auto two = ranking.begin(0b10, now);
  const auto late = ranking.begin(0b10, now);
  now += 1ms;
  EXPECT_TRUE(fail(one));
  EXPECT_FALSE(fail(two));
  EXPECT_FALSE(ranking.wanted(late));
  EXPECT_FALSE(ranking.end(late, Outcome::kGave, 1, "", now)) << "it began before";
  now += 1s;
  EXPECT_EQ(look().due, 0b10U) << "after the first, shortest time";
}

TEST_F(SourceRankingTest, AsksTheOneThatIsBackFirstWhenAllAreAside) {
  failOnce(0b01);
  now += 10ms;
  failOnce(0b10);
  EXPECT_EQ(look().healthy, 0U);
  EXPECT_EQ(begin().source, 0U);
}

TEST_F(SourceRankingTest, ARequestThatWasGivenUpSaysNothing) {
  failOnce(0b10);
  now += 1s;
  ranking.end(ranking.begin(0b10, now), Outcome::kUndecided, 0, "", now);
  EXPECT_EQ(look().due, 0b10U);
  EXPECT_EQ(aside(1), "no connection");
}

TEST_F(SourceRankingTest, SetsAsideWhatIsSlow) {
  EXPECT_TRUE(ranking.end(begin(0b01), Outcome::kSlow, 40, "slow", now));
  const auto counts = ranking.statistics(now);
  EXPECT_EQ(counts[0].bytes, 40U);
  EXPECT_EQ(counts[0].stragglers, 1U);
  EXPECT_EQ(counts[0].failures, 0U);
  EXPECT_EQ(look().usable(), 0b10U);
}

TEST_F(SourceRankingTest, IsNotAskedAgainForWhatItLacks) {
  ranking.end(ranking.begin(0b10, now), Outcome::kLacks, 0, "404", now);
  EXPECT_TRUE(ranking.lacks(1, kFile, now)) << "said once";
  EXPECT_EQ(look().having, 0b01U);
  EXPECT_EQ(look(kBoth, kFile + 1).having, kBoth);
  EXPECT_EQ(aside(1), "") << "it has other files";
  EXPECT_FALSE(ranking.lacks(1, kFile, now)) << "counted already";
  EXPECT_FALSE(ranking.lacks(1, kFile + 2, now));
  EXPECT_EQ(ranking.statistics(now)[1].unproved, 2U);
  now += SourceRanking::kLacksHolds;
  EXPECT_EQ(look().having, kBoth);
}

TEST_F(SourceRankingTest, SetsAsideWhatRefusesOneRequestAfterTheOther) {
  for (const Outcome outcome : {Outcome::kRefused, Outcome::kLacks}) {
    for (int times = 1; times < SourceRanking::kMaxRefusals; ++times)
      EXPECT_FALSE(ranking.end(ranking.begin(0b10, now), outcome, 0, "403", now));
    EXPECT_EQ(aside(1), "");
    EXPECT_TRUE(ranking.end(ranking.begin(0b10, now), outcome, 0, "403", now));
    EXPECT_EQ(aside(1), "403");
    now += SourceRanking::kFirstAside;
    EXPECT_TRUE(give(ranking.begin(0b10, now), 1ms));
  }
}

TEST_F(SourceRankingTest, LeavesAServerAloneAsLongAsItAsks) {
  ranking.leaveAlone(0, now + 20s);
  ranking.leaveAlone(0, now + 10s);
  EXPECT_EQ(look().usable(), 0b10U);
  now += 19s;
  EXPECT_EQ(ranking.leftAlone(kBoth, now), 0b01U);
  now += 1s;
  EXPECT_EQ(ranking.leftAlone(kBoth, now), 0U);
}

TEST_F(SourceRankingTest, AsksALiarForNothingThoughAllOthersFail) {
  const auto queued = ranking.begin(0b10, now);
  now += 1ms;
  EXPECT_TRUE(ranking.distrust(1, true, "wrong bytes", now));
  EXPECT_FALSE(ranking.distrust(1, true, "wrong bytes", now)) << "known";
  EXPECT_FALSE(ranking.wanted(queued));
  failOnce(0b01);
  for (const auto after : {0s, 256s, 3000s}) {
    now += after;
    EXPECT_EQ(look().lied, 0b10U);
    EXPECT_EQ(look().usable(), 0b01U);
    EXPECT_EQ(aside(1), "wrong bytes");
  }
  now += SourceRanking::kLieHolds;
  EXPECT_EQ(look().lied, 0U);
  EXPECT_EQ(aside(1), "");
}

TEST_F(SourceRankingTest, AsksASuspectAfterAllOthers) {
  EXPECT_TRUE(ranking.distrust(1, false, "wrong bytes", now));
  EXPECT_FALSE(give(ranking.begin(0b10, now), 1ms)) << "that it answers clears it of nothing";
  EXPECT_EQ(aside(1), "wrong bytes");
  EXPECT_EQ(look().usable(), 0b01U);
  EXPECT_EQ(look().answering, kBoth);
  failOnce(0b01);
  EXPECT_EQ(begin().source, 0U) << "one that fails rather than one that may lie";
  EXPECT_EQ(look().answering, 0b10U);
  now += SourceRanking::kSuspicionHolds;
  EXPECT_EQ(look().healthy, 0b10U);
}

TEST_F(SourceRankingTest, OneFileClearsNoSourceOfWhatAnotherFileShowed) {
  EXPECT_TRUE(ranking.distrust(1, true, "a is wrong", now));
  EXPECT_FALSE(ranking.distrust(1, false, "b may be wrong", now));
  ranking.trust(1, "b may be wrong");
  EXPECT_EQ(look().lied, 0b10U);
  EXPECT_FALSE(ranking.distrust(1, true, "b is wrong", now));
  ranking.trust(1, "a is wrong");
  EXPECT_EQ(look().lied, 0b10U);
  EXPECT_FALSE(ranking.distrust(1, false, "b is wrong", now)) << "less than it was";
  EXPECT_EQ(look().lied, 0U);
  EXPECT_EQ(look().healthy, 0b01U);
  ranking.trust(1, "b is wrong");
  EXPECT_EQ(look().healthy, kBoth);
}

}  // namespace
}  // namespace hearth
