// Slow agents do not hold up a caller that needs room or opens a file here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "cache/copies_testing.h"
#include "cache/evictor.h"

namespace hearth {
namespace {

using namespace testing_support;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kFiles = 400;
constexpr std::uint64_t kFileBytes = kAllocationBytes;

// A cache that is full of small files, which are wanted.
class SlowOthersTest : public CopiesTestBase {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(open(kFiles * kFileBytes));
    for (std::uint64_t n = 0; n < kFiles; ++n) {
      ASSERT_TRUE(run(fill(*cache, keyOf(n), kFileBytes)).ok());
      moveClock(std::chrono::milliseconds(2));
    }
  }
  // Files of their own, as large as so many, at the same time.
  void putAll(std::size_t writers, std::uint64_t each) {
    const auto all = [&]() -> Task<bool> {
      Gate writing(*reactor);
      for (std::size_t i = 0; i < writers; ++i) writing.spawn(put(next_++, each));
      co_await writing.close();
      co_return true;
    };
    run(all());
  }
  Task<void> put(std::uint64_t n, std::uint64_t count) {
    Task<Status> filling = fill(*cache, keyOf(n), count * kFileBytes);
    const Status done = co_await filling;
    EXPECT_TRUE(done.ok()) << done.error().message;
  }
  // As a reader does.
  Task<void> openFile(ContentKey key) {
    Task<Result<std::shared_ptr<CachedFile>>> opening = cache->acquire(key, kFileBytes, false);
    auto opened = co_await opening;
    if (opened.ok()) read = std::move(*opened);
  }

  std::shared_ptr<CachedFile> read;  // by the one who opened it

 private:
  std::uint64_t next_ = kFiles;
};

TEST_F(SlowOthersTest, WhoNeedsRoomWaitsForOthersForTwoSecondsInAll) {
  std::size_t total = 0;
  for (const CopyVerdict answer : {CopyVerdict::kUnconfirmed, CopyVerdict::kUnanswered,
                                   CopyVerdict::kRedundant, CopyVerdict::kLast}) {
    others.fallback = answer;
    for (const auto takes : {ClusterCopies::kAnswersIn, std::chrono::milliseconds(300)}) {
      others.takes = takes;
      others.requests = 0;
      putAll(1, 200);
      EXPECT_LE(others.requests * takes, std::chrono::seconds(2));
      total += others.requests;
      moveClock(Evictor::kLastCopyFor);
    }
  }
  EXPECT_GT(total, 4u);
  const CacheStatistics counted = cache->statistics();
  EXPECT_GT(counted.unaskedCopies, 0u) << "for which there was no time";
  EXPECT_LE(counted.directories[0].usedBytes, kFiles * kFileBytes);
}

TEST_F(SlowOthersTest, WhatThoseBeforeHaveWaitedCounts) {
  others.fallback = CopyVerdict::kUnconfirmed;
  others.takes = ClusterCopies::kAnswersIn;
  putAll(8, 30);
  EXPECT_EQ(others.requests, 1u);
}

// Others say of all files, one question after the other, that they are the last copies.
TEST_F(SlowOthersTest, AFewRequestsInVainAreEnough) {
  putAll(1, 200);
  EXPECT_LE(others.requests, Evictor::kVainRequests + 1) << "with that of the last resort";
  EXPECT_GE(others.requests, 1u);
}

TEST_F(SlowOthersTest, InTheLastResortTheyAreAskedOnce) {
  others.fallback = CopyVerdict::kUnanswered;
  putAll(1, 390);
  EXPECT_LE(others.requests, Evictor::kVainRequests + 1);
  EXPECT_GT(cache->statistics().unansweredCopies, 0u);
}

// On a busy machine a test's own time may use up what there is for a second question: the next try
// shows it then.
constexpr int kTries = 4;

// It had leave to go, and others are asked about further ones.
TEST_F(SlowOthersTest, WhoOpensAFileDoesNotWaitForRequestsAboutOthers) {
  others.fallback = CopyVerdict::kRedundant;
  Gate readers(*reactor);
  bool inTime = false;
  others.waits = [&] { return others.requests == 2 && read == nullptr; };
  others.whileAsked = [&] {
    if (others.requests == 2) readers.spawn(openFile(keyOf(others.asked.front())));
  };
  others.whenAnswered = [&] { inTime = inTime || read != nullptr; };
  for (int tries = 0; tries < kTries && read == nullptr; ++tries) {
    others.requests = 0;
    others.asked.clear();
    putAll(1, 80);
  }
  EXPECT_TRUE(inTime);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->residentBytes(), kFileBytes) << "it stays, as it is in use";
}

TEST_F(SlowOthersTest, WhoOpensAFileThatGoesWaitsForNoneThatNeedsRoomLater) {
  others.fallback = CopyVerdict::kRedundant;
  Gate readers(*reactor);
  bool inTime = false;
  bool opens = false;
  others.waits = [&] { return others.requests == 2 && read == nullptr; };
  others.whenGone = [&](const ContentKey& key) {
    if (!std::exchange(opens, true)) readers.spawn(openFile(key));
  };
  others.whenAnswered = [&] { inTime = inTime || (others.requests == 2 && read != nullptr); };
  for (int tries = 0; tries < kTries && !inTime; ++tries) {
    opens = false;
    others.requests = 0;
    read.reset();
    putAll(2, 30);
  }
  EXPECT_TRUE(inTime) << "before the second one who needs room had it";
}

TEST_F(SlowOthersTest, WhoOpensAnEmptyFileMakesNoRoomForIt) {
  const Result<std::shared_ptr<CachedFile>> empty = run(cache->acquire(keyOf(kFiles), 0, false));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE((*empty)->complete());
  EXPECT_EQ(others.requests, 0u);
  EXPECT_THAT(others.gone, IsEmpty());
  // A caller that needs the file on the disk waits.
  ASSERT_TRUE(run((*empty)->claimed()).ok());
  EXPECT_TRUE((*empty)->descriptor().ok());
  EXPECT_THAT(others.gone, Not(IsEmpty()));
}

}  // namespace
}  // namespace hearth
