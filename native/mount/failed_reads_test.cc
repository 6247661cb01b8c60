#include "mount/failed_reads.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

ContentKey keyOf(std::uint32_t number) {
  ContentKey key{};
  key.bytes[0] = static_cast<std::uint8_t>(number % 256);
  key.bytes[1] = static_cast<std::uint8_t>(number / 256 + 1);
  return key;
}

TEST(FailedReads, LogsAFileAndReasonOnceAMinuteAndCountsAll) {
  FailedReads failed;
  const Clock::time_point start{};
  EXPECT_EQ(failed.note(keyOf(1), ErrorCode::kOutOfSpace, start), 0u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(failed.note(keyOf(1), ErrorCode::kOutOfSpace, start + std::chrono::seconds(i)));
  }
  // Another file, and another reason, are new.
  EXPECT_EQ(failed.note(keyOf(2), ErrorCode::kOutOfSpace, start), 0u);
  EXPECT_EQ(failed.note(keyOf(1), ErrorCode::kUnavailable, start), 0u);
  EXPECT_EQ(failed.note(keyOf(1), ErrorCode::kOutOfSpace, start + FailedReads::kPause), 5u);
  EXPECT_FALSE(failed.note(keyOf(1), ErrorCode::kOutOfSpace, start + FailedReads::kPause));
  const std::map<ErrorCode, std::uint64_t> counts = failed.counts();
  EXPECT_EQ(counts.at(ErrorCode::kOutOfSpace), 9u);
  EXPECT_EQ(counts.at(ErrorCode::kUnavailable), 1u);
}

TEST(FailedReads, RemembersSoManyFilesAndLogsFurtherOnesAsOne) {
  FailedReads failed;
  const Clock::time_point start{};
  for (std::uint32_t i = 0; i < FailedReads::kRemembered; ++i) {
    EXPECT_EQ(failed.note(keyOf(i), ErrorCode::kIoError, start), 0u);
  }
  const auto further = static_cast<std::uint32_t>(FailedReads::kRemembered);
  EXPECT_EQ(failed.note(keyOf(further), ErrorCode::kIoError, start), 0u);
  EXPECT_FALSE(failed.note(keyOf(further + 1), ErrorCode::kIoError, start));
  EXPECT_FALSE(failed.note(keyOf(further + 2), ErrorCode::kIoError, start));
  // A minute later the first ones are forgotten.
  EXPECT_EQ(failed.note(keyOf(further + 3), ErrorCode::kIoError, start + FailedReads::kPause), 0u);
  EXPECT_EQ(failed.counts().at(ErrorCode::kIoError), FailedReads::kRemembered + 4);
}

TEST(FailedReads, AdvisesOnEveryReason) {
  for (std::uint16_t code = 0; isErrorCode(code); ++code) {
    EXPECT_FALSE(adviceFor(static_cast<ErrorCode>(code)).empty()) << code;
  }
}

}  // namespace
}  // namespace hearth
