#include "cache/evictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/cache_testing.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

constexpr std::uint64_t kSize = 4 * kAllocationBytes;

class EvictorTest : public testing::Test {
 protected:
  void open(std::uint64_t budget, std::uint64_t floor = 0) {
    auto opened = run(openContentCache({{"/cache", budget, floor}}, {{*reactor, files}}, {}));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache = std::move(*opened);
  }
  void TearDown() override {
    if (cache) run(cache->close());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  Status put(std::uint64_t n) {
    const Status done = run(fill(*cache, keyOf(n), kSize));
    // The order of use is in milliseconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return done;
  }
  std::vector<std::uint64_t> present(std::uint64_t count) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t n = 0; n < count; ++n) {
      if (cache->residentBytes(keyOf(n)) == kSize) found.push_back(n);
    }
    return found;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::unique_ptr<ContentCache> cache;
};

using testing::ElementsAre;

TEST_F(EvictorTest, EvictsTheLeastRecentlyUsed) {
  open(4 * kSize);
  for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(put(n).ok());
  cache->find(keyOf(0))->touch();
  ASSERT_TRUE(put(4).ok());
  EXPECT_EQ(cache->residentBytes(keyOf(0)), kSize);
  EXPECT_EQ(cache->residentBytes(keyOf(1)), 0u);
  EXPECT_EQ(cache->residentBytes(keyOf(4)), kSize);
  EXPECT_LE(cache->statistics().directories[0].usedBytes, 4 * kSize);
  EXPECT_EQ(cache->statistics().evictedFiles, 4 - cache->statistics().contentKeys + 1);
}

TEST_F(EvictorTest, AUseElsewhereInTheClusterCounts) {
  open(4 * kSize);
  for (std::uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(put(n).ok());
  cache->noteClusterUse(keyOf(0), std::numeric_limits<std::int64_t>::max());
  ASSERT_TRUE(put(4).ok());
  EXPECT_EQ(cache->residentBytes(keyOf(0)), kSize);
  EXPECT_EQ(cache->residentBytes(keyOf(1)), 0u);
}

TEST_F(EvictorTest, KeepsWhatIsPinnedOrInUseAndSaysSo) {
  open(3 * kSize);
  for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(put(n).ok());
  cache->pin(keyOf(0), "job");
  cache->pin(keyOf(0), "job");
  cache->pin(keyOf(0), "other");
  {
    const auto used = cache->find(keyOf(1));
    const auto alsoUsed = cache->find(keyOf(2));
    const Status full = put(3);
    EXPECT_EQ(full.code(), ErrorCode::kOutOfSpace);
    EXPECT_NE(full.error().message.find("/cache has no room"), std::string::npos)
        << full.error().message;
    EXPECT_EQ(*run(cache->evict(keyOf(0))), EvictOutcome::kPinned);
    EXPECT_EQ(*run(cache->evict(keyOf(1))), EvictOutcome::kInUse);
    EXPECT_THAT(present(4), ElementsAre(0, 1, 2));
  }
  cache->unpin(keyOf(0), "job");
  EXPECT_EQ(cache->statistics().pinnedBytes, kSize);
  EXPECT_EQ(*run(cache->evict(keyOf(0))), EvictOutcome::kPinned);
  cache->unpin(keyOf(0), "other");
  EXPECT_EQ(*run(cache->evict(keyOf(0))), EvictOutcome::kEvicted);
  EXPECT_EQ(*run(cache->evict(keyOf(0))), EvictOutcome::kAbsent);
  EXPECT_TRUE(put(3).ok());
}

TEST_F(EvictorTest, AFileLargerThanTheBudgetEvictsNothing) {
  open(3 * kSize);
  for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(put(n).ok());
  EXPECT_EQ(run(fill(*cache, keyOf(9), 100 * kSize)).code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(present(3), ElementsAre(0, 1, 2));
}

TEST_F(EvictorTest, KeepsTheFloorOfFreeSpace) {
  files.setSpace({.totalBytes = 1 << 30, .freeBytes = 3 * kSize});
  open(1 << 30, kSize);
  // As a disk that fills: what is free is measured again when some time has passed.
  ASSERT_TRUE(put(0).ok());
  files.setSpace({.totalBytes = 1 << 30, .freeBytes = 2 * kSize});
  ASSERT_TRUE(put(1).ok());
  files.setSpace({.totalBytes = 1 << 30, .freeBytes = kSize});
  const std::uint64_t free = cache->statistics().directories[0].fileSystemFreeBytes;
  EXPECT_EQ(free, kSize);
  ASSERT_TRUE(put(2).ok());
  EXPECT_LE(present(3).size(), 2u);
  EXPECT_EQ(cache->residentBytes(keyOf(2)), kSize);
}

TEST_F(EvictorTest, ADropThatCannotBeWrittenLeavesTheKeyAsItWas) {
  open(3 * kSize);
  ASSERT_TRUE(put(0).ok());
  ASSERT_TRUE(run(cache->find(keyOf(0))->claimed()).ok());
  files.inject(FileCall::kWrite, 1, EIO);
  EXPECT_EQ(run(cache->evict(keyOf(0))).code(), ErrorCode::kIoError);
  const auto file = cache->find(keyOf(0));
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(holds(*file, 0));
}

TEST_F(EvictorTest, AnUnwrittenKeyLeavesNoTrace) {
  open(3 * kSize);
  auto file = run(cache->acquire(keyOf(0), kSize, false));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(cache->find(keyOf(0)), nullptr);
  EXPECT_EQ(run(cache->acquire(keyOf(0), kSize + 1, false)).code(), ErrorCode::kInvalidArgument);
  (*file).reset();
  EXPECT_TRUE(run(cache->acquire(keyOf(0), kSize + 1, false)).ok());
}

}  // namespace
}  // namespace hearth
