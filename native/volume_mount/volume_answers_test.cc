#include "volume_mount/volume_answers.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "fuse/fuse_abi.h"

namespace hearth {
namespace {

class VolumeAnswersTest : public ::testing::Test {
 protected:
  VolumeAnswers::Begun begin(std::uint64_t unique, std::uint64_t node = 0,
                             std::uint32_t opcode = FUSE_FLUSH) {
    return answers_.begin(unique, opcode, node);
  }
  // `age` after now.
  void endOverdue(Clock::duration age) {
    answers_.endOverdue(Clock::now() + age, kDeadline, [](std::uint64_t node) {
      return node == kMoves ? Clock::time_point::max() : Clock::time_point();
    });
  }

  static constexpr Clock::duration kDeadline = std::chrono::hours(1);
  static constexpr std::uint64_t kMoves = 7;
  FuseDevice device_{OwnedFd(::open("/dev/null", O_WRONLY | O_CLOEXEC))};
  VolumeAnswers answers_{device_};
};

TEST_F(VolumeAnswersTest, AcceptsAgainWhenOneOfTheMostThatMayWaitIsAnswered) {
  for (std::uint64_t unique = 1; unique <= VolumeAnswers::kMaxPending; ++unique) {
    EXPECT_TRUE(answers_.accepts());
    EXPECT_EQ(begin(unique), VolumeAnswers::Begun::kYes);
  }
  EXPECT_FALSE(answers_.accepts());
  answers_.replyErrno(7, EIO);
  EXPECT_TRUE(answers_.accepts());
}

TEST_F(VolumeAnswersTest, AnswersEachRequestOnceAndNothingAfterClose) {
  ASSERT_EQ(begin(1), VolumeAnswers::Begun::kYes);
  ASSERT_EQ(begin(2), VolumeAnswers::Begun::kYes);
  EXPECT_TRUE(answers_.replyErrno(1, 0));
  EXPECT_FALSE(answers_.replyErrno(1, 0));
  answers_.close(std::chrono::milliseconds(0), true);
  EXPECT_FALSE(answers_.replyErrno(2, 0));
  EXPECT_EQ(begin(3), VolumeAnswers::Begun::kClosed);
  EXPECT_TRUE(answers_.left());
}

TEST_F(VolumeAnswersTest, EndsWhatIsOverdueUnlessItMovesBytes) {
  ASSERT_EQ(begin(1, 5), VolumeAnswers::Begun::kYes);
  ASSERT_EQ(begin(2, kMoves), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline / 2);
  EXPECT_EQ(answers_.overdue(), 0U);
  endOverdue(kDeadline);
  EXPECT_EQ(answers_.overdue(), 1U);
  EXPECT_FALSE(answers_.replyErrno(1, 0)) << "too late";
  EXPECT_TRUE(answers_.replyErrno(2, 0));
}

TEST_F(VolumeAnswersTest, RefusesOthersLikeOneThatWasOverdueUntilItsCallEnds) {
  ASSERT_EQ(begin(1, 0, FUSE_CREATE), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline);
  EXPECT_EQ(begin(2, 0, FUSE_CREATE), VolumeAnswers::Begun::kRefused);
  EXPECT_FALSE(answers_.replyErrno(1, 0));
  EXPECT_EQ(begin(3, 0, FUSE_CREATE), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline / 2);
  EXPECT_TRUE(answers_.replyErrno(3, 0)) << "it has all the time again";
}

TEST_F(VolumeAnswersTest, GivesRequestsForNamesAMomentAfterOneWasOverdue) {
  ASSERT_EQ(begin(1, 0, FUSE_CREATE), VolumeAnswers::Begun::kYes);
  // A call may end with its own deadline first.
  EXPECT_TRUE(answers_.replyErrno(1, ETIMEDOUT));
  ASSERT_EQ(begin(2, 0, FUSE_LOOKUP), VolumeAnswers::Begun::kYes);
  ASSERT_EQ(begin(3, 0, FUSE_OPEN), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline / 2);
  EXPECT_FALSE(answers_.replyErrno(2, 0));
  EXPECT_TRUE(answers_.replyErrno(3, 0)) << "the kernel holds no lock for it";
  ASSERT_EQ(begin(4, 0, FUSE_LOOKUP), VolumeAnswers::Begun::kYes) << "the late answer came";
  endOverdue(kDeadline / 2);
  EXPECT_TRUE(answers_.replyErrno(4, 0));
}

TEST_F(VolumeAnswersTest, NeverRefusesARelease) {
  ASSERT_EQ(begin(1, 0, FUSE_RELEASE), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline);
  EXPECT_EQ(begin(2, 0, FUSE_RELEASE), VolumeAnswers::Begun::kYes);
}

TEST_F(VolumeAnswersTest, RefusesRequestsWhileTooManyCallsGoOnWithoutTheirs) {
  for (std::uint64_t unique = 1; unique <= VolumeAnswers::kMaxOverdue; ++unique)
    ASSERT_EQ(begin(unique), VolumeAnswers::Begun::kYes);
  endOverdue(kDeadline);
  EXPECT_EQ(begin(5000, 0, FUSE_LOOKUP), VolumeAnswers::Begun::kRefused);
  EXPECT_TRUE(answers_.accepts()) << "they must not wait in the kernel";
  EXPECT_FALSE(answers_.replyErrno(1, 0));
  EXPECT_EQ(begin(5001, 0, FUSE_LOOKUP), VolumeAnswers::Begun::kYes);
}

TEST_F(VolumeAnswersTest, ARequestThatIsSentAgainIsAnsweredOnce) {
  constexpr std::uint64_t kResent = std::uint64_t{1} << 63;
  ASSERT_EQ(begin(1), VolumeAnswers::Begun::kYes);
  EXPECT_EQ(begin(1 | kResent), VolumeAnswers::Begun::kAgain);
  EXPECT_TRUE(answers_.replyErrno(1, 0));
  EXPECT_FALSE(answers_.replyErrno(1 | kResent, 0));
}

}  // namespace
}  // namespace hearth
