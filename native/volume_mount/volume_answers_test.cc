#include "volume_mount/volume_answers.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace hearth {
namespace {

class VolumeAnswersTest : public ::testing::Test {
 protected:
  FuseDevice device_{OwnedFd(::open("/dev/null", O_WRONLY | O_CLOEXEC))};
  VolumeAnswers answers_{device_};
};

TEST_F(VolumeAnswersTest, AcceptsAgainWhenOneOfTheMostThatMayWaitIsAnswered) {
  for (std::uint64_t unique = 1; unique <= VolumeAnswers::kMaxPending; ++unique) {
    EXPECT_TRUE(answers_.accepts());
    EXPECT_TRUE(answers_.begin(unique));
  }
  EXPECT_FALSE(answers_.accepts());
  answers_.replyErrno(7, EIO);
  EXPECT_TRUE(answers_.accepts());
}

TEST_F(VolumeAnswersTest, AnswersEachRequestOnceAndNothingAfterClose) {
  ASSERT_TRUE(answers_.begin(1));
  ASSERT_TRUE(answers_.begin(2));
  EXPECT_TRUE(answers_.replyErrno(1, 0));
  EXPECT_FALSE(answers_.replyErrno(1, 0));
  answers_.close(std::chrono::milliseconds(0), true);
  EXPECT_FALSE(answers_.replyErrno(2, 0));
  EXPECT_FALSE(answers_.begin(3));
  EXPECT_TRUE(answers_.left());
}

}  // namespace
}  // namespace hearth
