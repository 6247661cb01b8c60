#include "fuse/fuse_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>

namespace hearth {
namespace {

// Never has its bytes; the test answers.
class AbsentFile final : public MountSource::OpenFile {
 public:
  Result<int> backing() override { return Error{ErrorCode::kNotFound, "not here"}; }
  Result<MappedBytes> tryRead(std::uint64_t, std::uint32_t) override {
    return Error{ErrorCode::kNotFound, "not here"};
  }
  void read(std::uint64_t, std::uint32_t, std::function<void(Result<MappedBytes>)> answered,
            std::function<bool()> wanted) override {
    answer = std::move(answered);
    waits = std::move(wanted);
  }
  void willNeed(std::uint64_t, std::uint64_t) override {}
  void loadAhead(std::uint64_t, std::uint64_t) override {}

  std::function<void(Result<MappedBytes>)> answer;
  std::function<bool()> waits;
};

class FuseReadsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kNode = 5;

  void read(std::uint64_t unique) {
    reads_.read({.unique = unique, .offset = 0, .length = 4, .owner = owner_, .failed = failed_},
                reading_);
  }

  FuseDevice device_{OwnedFd(::open("/dev/null", O_WRONLY | O_CLOEXEC))};
  FuseCounters counters_;
  FuseReads reads_{device_, counters_, {}, 16};
  const std::shared_ptr<AbsentFile> file_ = std::make_shared<AbsentFile>();
  const std::shared_ptr<FuseReading> reading_ = std::make_shared<FuseReading>();
  const std::shared_ptr<int> owner_ = std::make_shared<int>();
  const std::function<void(const Error&)> failed_ = [](const Error&) {};

  void SetUp() override {
    reading_->file = file_;
    reading_->size = 4;
  }
};

TEST_F(FuseReadsTest, AReadThatIsOverdueEndsAndItsBytesAreDropped) {
  const Clock::time_point now = Clock::now();
  ASSERT_TRUE(reads_.begin(1, kNode, now));
  read(1);
  reads_.endOverdue(now, now);
  EXPECT_EQ(reads_.overdue(), 0U) << "its time is not over";
  EXPECT_TRUE(file_->waits());
  reads_.endOverdue(now + std::chrono::nanoseconds(1), now);
  EXPECT_EQ(reads_.overdue(), 1U);
  EXPECT_FALSE(file_->waits());
  static constexpr std::array<std::byte, 4> kBytes{};
  file_->answer(MappedBytes{kBytes, nullptr, {}, {}});
  EXPECT_EQ(counters_.reads, 0U);
}

TEST_F(FuseReadsTest, TheKernelsSecondTryEndsAtOnce) {
  const Clock::time_point now = Clock::now();
  ASSERT_TRUE(reads_.begin(1, kNode, now));
  reads_.endOverdue(now + std::chrono::nanoseconds(1), now);
  EXPECT_FALSE(reads_.begin(2, kNode, now));
  EXPECT_EQ(reads_.overdue(), 2U);
  EXPECT_TRUE(reads_.begin(3, kNode + 1, now)) << "of another file";
  EXPECT_TRUE(reads_.begin(4, kNode, now + std::chrono::seconds(1)));
}

TEST_F(FuseReadsTest, AReadIsAnsweredOnce) {
  ASSERT_TRUE(reads_.begin(1, kNode, Clock::now()));
  reads_.fail({.unique = 1, .owner = owner_, .failed = failed_},
              Error{ErrorCode::kUnavailable, "away"});
  reads_.endOverdue(Clock::time_point::max(), Clock::now());
  EXPECT_EQ(reads_.overdue(), 0U);
}

}  // namespace
}  // namespace hearth
