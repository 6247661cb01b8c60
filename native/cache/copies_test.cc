// Eviction while other agents may keep copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/moved_clock.h"
#include "cache/copies_testing.h"
#include "cache/evictor.h"

namespace hearth {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kCopyBytes = 4 * kAllocationBytes;
// Room for one more file takes one file then, with what is freed beyond need.
constexpr std::uint64_t kSpareBytes = 2048;
constexpr auto kDay = std::chrono::hours(24);

class CopiesTest : public CopiesTestBase {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(open(4 * kCopyBytes + kSpareBytes));
    for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(put(n).ok());
  }
  Status put(std::uint64_t n, Clock::duration later = std::chrono::seconds(2)) {
    moveClock(later);
    return run(fill(*cache, keyOf(n), kCopyBytes));
  }
  void use(std::uint64_t n, std::chrono::hours ahead) {
    const auto at = WallClock::now() + ahead;
    cache->noteClusterUse(
        keyOf(n),
        std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count());
  }
  std::vector<std::uint64_t> present() {
    std::vector<std::uint64_t> found;
    for (std::uint64_t n = 0; n < 10; ++n) {
      if (cache->residentBytes(keyOf(n)) == kCopyBytes) found.push_back(n);
    }
    return found;
  }
};

TEST_F(CopiesTest, ARedundantCopyGoesBeforeLastOnes) {
  others.verdicts[2] = CopyVerdict::kRedundant;
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(others.gone, ElementsAre(2));
  EXPECT_EQ(cache->statistics().redundantCopies, 1u);
  EXPECT_EQ(cache->statistics().lastCopiesKept, 2u);
  EXPECT_EQ(cache->statistics().lastCopies, 0u);
}

TEST_F(CopiesTest, OfRedundantCopiesTheOneGoesThatThisAgentHasNotUsedForLongest) {
  others.fallback = CopyVerdict::kRedundant;
  use(0, 3 * kDay);  // by others
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(1, 2, 3, 4));
}

TEST_F(CopiesTest, WhenAllAreLastTheOneGoesThatTheClusterUsesLeast) {
  use(0, 3 * kDay);
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(cache->statistics().lastCopies, 1u);
}

TEST_F(CopiesTest, ALastCopyIsAskedForAgainAfterAWhile) {
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(others.asked, ElementsAre(0, 1, 2, 3));
  others.asked.clear();
  ASSERT_TRUE(put(5).ok());
  EXPECT_THAT(others.asked, ElementsAre(4));
  others.asked.clear();
  moveClock(Evictor::kLastCopyFor);
  others.verdicts[3] = CopyVerdict::kRedundant;
  ASSERT_TRUE(put(6).ok());
  EXPECT_THAT(others.asked, ElementsAre(2, 3));
  EXPECT_THAT(present(), ElementsAre(2, 4, 5, 6));
}

TEST_F(CopiesTest, WithoutAnAnswerTheBudgetIsStillKept) {
  others.fallback = CopyVerdict::kUnanswered;
  for (std::uint64_t n = 4; n < 8; ++n) ASSERT_TRUE(put(n).ok());
  EXPECT_THAT(present(), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(cache->statistics().unansweredCopies, 4u);
}

TEST_F(CopiesTest, WhatOthersDidNotConfirmIsAskedForAgainSoonerThanALastCopy) {
  others.fallback = CopyVerdict::kUnconfirmed;
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(cache->statistics().unansweredCopies, 1u);
  EXPECT_EQ(cache->statistics().lastCopiesKept, 0u);
  others.asked.clear();
  ASSERT_TRUE(put(5).ok());
  EXPECT_THAT(others.asked, ElementsAre(4));
  EXPECT_THAT(present(), ElementsAre(2, 3, 4, 5));
  moveClock(Evictor::kUnconfirmedFor);
  others.verdicts[3] = CopyVerdict::kRedundant;
  ASSERT_TRUE(put(6).ok());
  EXPECT_THAT(present(), ElementsAre(2, 4, 5, 6));
}

// Others would have to be asked for all, and refuse all: whoever needs room has it at once.
TEST_F(CopiesTest, LeaveThatIsAlwaysRefusedIsAskedForOnce) {
  for (std::uint64_t n = 4; n < 10; ++n) ASSERT_TRUE(put(n).ok());
  EXPECT_THAT(present(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(others.gone, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(others.asked.size(), 9u) << "each file once, but for the one that came last";
  EXPECT_EQ(cache->statistics().lastCopies, 6u);
  EXPECT_LE(cache->statistics().directories[0].usedBytes, 4 * kCopyBytes + kSpareBytes);
}

TEST_F(CopiesTest, WhereRoomIsNeededAgainAndAgainOthersAreAskedOnceASecond) {
  others.fallback = CopyVerdict::kUnanswered;
  ASSERT_TRUE(put(4).ok());
  others.verdicts[3] = CopyVerdict::kRedundant;
  ASSERT_TRUE(put(5, std::chrono::milliseconds(1)).ok());
  EXPECT_THAT(present(), ElementsAre(2, 3, 4, 5));
  ASSERT_TRUE(put(6, std::chrono::seconds(1)).ok());
  EXPECT_THAT(present(), ElementsAre(2, 4, 5, 6));
}

TEST_F(CopiesTest, WhatIsNotWantedGoesWithoutAQuestion) {
  moveClock(kDay);
  use(0, kDay);
  for (std::uint64_t n = 4; n < 7; ++n) ASSERT_TRUE(put(n).ok());
  EXPECT_THAT(present(), ElementsAre(0, 4, 5, 6));
  EXPECT_THAT(others.gone, ElementsAre(1, 2, 3));
}

TEST_F(CopiesTest, WithDirectoriesOfAnEarlierReleaseItGoesByUseAsBefore) {
  others.fallback = CopyVerdict::kUnsupported;
  use(0, 3 * kDay);
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(0, 2, 3, 4));
  EXPECT_EQ(cache->statistics().lastCopies, 0u);
  EXPECT_EQ(cache->statistics().unansweredCopies, 0u);
  EXPECT_EQ(cache->statistics().unaskedCopies, 1u);
}

TEST_F(CopiesTest, AnAgentThatIsAloneAsksNone) {
  others.present = false;
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(others.asked, IsEmpty());
  EXPECT_THAT(others.gone, IsEmpty());
  EXPECT_EQ(cache->statistics().unaskedCopies, 0u);
}

// Leave was given, and a reader has come meanwhile: it stays, and that is said.
TEST_F(CopiesTest, AFileThatIsOpenedWhileOthersAreAskedStays) {
  others.fallback = CopyVerdict::kRedundant;
  std::shared_ptr<CachedFile> reader;
  others.whileAsked = [&] {
    if (reader == nullptr) reader = cache->find(keyOf(0));
  };
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(present(), ElementsAre(0, 2, 3, 4));
}

// Another agent got leave for the sake of this copy, which had seemed to be wanted by none.
TEST_F(CopiesTest, AFileThatTurnsOutToBeWantedWhileOthersAreAskedStays) {
  moveClock(kDay);
  for (std::uint64_t n = 1; n < 4; ++n) use(n, std::chrono::hours(1));
  others.fallback = CopyVerdict::kRedundant;
  others.whileAsked = [this] { use(0, std::chrono::hours(2)); };
  ASSERT_TRUE(run(fill(*cache, keyOf(8), 2 * kCopyBytes)).ok());
  EXPECT_THAT(present(), ElementsAre(0, 3));
  EXPECT_THAT(others.gone, ElementsAre(1, 2));
}

TEST_F(CopiesTest, WhatIsHereIsDurableOnceItIsClaimed) {
  ASSERT_TRUE(put(4).ok());
  const std::shared_ptr<CachedFile> file = cache->find(keyOf(4));
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->durable());
  ASSERT_TRUE(run(file->claimed()).ok());
  EXPECT_TRUE(file->durable());
}

// Else what is said of the new copy could precede it.
TEST_F(CopiesTest, ThatACopyHasGoneIsSaidBeforeItsKeyCanComeAgain) {
  others.verdicts[2] = CopyVerdict::kRedundant;
  bool known = false;
  others.whenGone = [&](const ContentKey& key) { known = cache->residentBytes(key) != 0; };
  ASSERT_TRUE(put(4).ok());
  EXPECT_THAT(others.gone, ElementsAre(2));
  EXPECT_TRUE(known);
}

TEST_F(CopiesTest, AFileOfTheDiskThatCannotBeRemovedStaysAndThatIsSaid) {
  others.fallback = CopyVerdict::kRedundant;
  ASSERT_TRUE(run(cache->find(keyOf(0))->claimed()).ok());
  files.inject(FileCall::kWrite, 1, EIO);
  EXPECT_FALSE(put(4).ok());
  EXPECT_THAT(others.open, IsEmpty());
  EXPECT_THAT(others.gone, IsEmpty());
}

}  // namespace
}  // namespace hearth
