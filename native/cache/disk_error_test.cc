// Files or a log that cannot be written or synced: what becomes of the chunk that it happened to,
// and that nothing becomes of the others.
#include <gtest/gtest.h>

#include "cache/cache_testing.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

constexpr std::uint64_t kSmall = 23000;

class DiskErrorTest : public testing::Test {
 protected:
  // Nothing is committed before it is asked for.
  void SetUp() override {
    tuning.commitDelay = std::chrono::hours(1);
    cache = open(files);
  }
  void TearDown() override { close(std::move(cache)); }

  std::unique_ptr<ContentCache> open(FileSystem& on) {
    auto opened = run(openContentCache({{"/cache", 1 << 20, 0}}, {{*reactor, on}}, tuning));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }
  void close(std::unique_ptr<ContentCache> which) {
    if (which) run(which->close());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::shared_ptr<CachedFile> acquire(std::uint64_t n) {
    auto acquired = run(cache->acquire(keyOf(n), kSmall, false));
    EXPECT_TRUE(acquired.ok());
    return *acquired;
  }
  std::shared_ptr<CachedFile> written(std::uint64_t n) {
    auto file = acquire(n);
    EXPECT_TRUE(run(writeWhole(file, 0)).ok());
    return file;
  }
  std::shared_ptr<CachedFile> claimed(std::uint64_t n) {
    auto file = written(n);
    EXPECT_TRUE(run(file->claimed()).ok());
    return file;
  }
  // The bytes of the key after the power failed.
  std::uint64_t residentAfterACrash(std::uint64_t n) {
    const auto survivor = files.crashCopy(n);
    auto again = open(*survivor);
    const std::uint64_t bytes = again->residentBytes(keyOf(n));
    close(std::move(again));
    return bytes;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  CacheTuning tuning;
  std::unique_ptr<ContentCache> cache;
};

TEST_F(DiskErrorTest, ALogThatCannotTakeARetractionIsTriedAgain) {
  const auto file = claimed(3);
  files.corrupt(file->path(), 7);
  ASSERT_FALSE(holds(*file, 0));
  files.inject(FileCall::kWrite, 1, ENOSPC);
  // The error meets whoever comes first: this or the background.
  const Status first = run(file->claimed());
  EXPECT_TRUE(first.ok() || first.code() == ErrorCode::kOutOfSpace);
  EXPECT_TRUE(run(file->claimed()).ok());
  EXPECT_EQ(residentAfterACrash(3), 0u);
}

TEST_F(DiskErrorTest, ADataFileThatCannotBeSyncedIsNotClaimed) {
  const auto file = written(1);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_EQ(run(file->claimed()).code(), ErrorCode::kIoError);
  EXPECT_FALSE(file->resident(0));
  EXPECT_EQ(residentAfterACrash(1), 0u);
  // It can be written again, and is then claimed.
  ASSERT_TRUE(run(writeWhole(file, 0)).ok());
  EXPECT_TRUE(run(file->claimed()).ok());
  EXPECT_EQ(residentAfterACrash(1), kSmall);
}

TEST_F(DiskErrorTest, ALogThatCannotBeWrittenIsTriedAgain) {
  const auto file = written(1);
  files.inject(FileCall::kWrite, 1, ENOSPC);
  EXPECT_EQ(run(file->claimed()).code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(file->resident(0));
  EXPECT_TRUE(run(file->claimed()).ok());
  EXPECT_EQ(residentAfterACrash(1), kSmall);
}

TEST_F(DiskErrorTest, ErrorsOfAWriteLeaveTheChunkAbsentAndTheCacheUsable) {
  for (const int error : {ENOSPC, EIO}) {
    auto file = acquire(2);
    files.inject(FileCall::kWrite, 1, error);
    const Status failed = run(writeWhole(file, 0));
    EXPECT_EQ(failed.code(), error == ENOSPC ? ErrorCode::kOutOfSpace : ErrorCode::kIoError);
    EXPECT_FALSE(file->resident(0));
    EXPECT_TRUE(run(writeWhole(file, 0)).ok());
    EXPECT_TRUE(holds(*file, 0));
    file.reset();
    const auto evicted = run(cache->evict(keyOf(2)));
    ASSERT_TRUE(evicted.ok());
    EXPECT_EQ(*evicted, EvictOutcome::kEvicted);
    EXPECT_EQ(cache->statistics().directories[0].usedBytes, 0u);
  }
}

TEST_F(DiskErrorTest, AnotherFilesFailedSyncDoesNotKeepAFileFromBeingVerified) {
  const auto file = claimed(1);
  const auto other = written(2);
  files.inject(FileCall::kSync, 1, EIO);
  Sha256Digest digest;
  digest.fill(7);
  const Status recorded = run(file->recordVerified(digest, file->generation()));
  EXPECT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_TRUE(file->verifiedWhole());
  EXPECT_FALSE(other->resident(0)) << "which was in the same group";
}

TEST_F(DiskErrorTest, AFileThatCannotBeSyncedIsNotVerified) {
  const auto file = written(1);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_EQ(run(file->recordVerified({}, file->generation())).code(), ErrorCode::kConflict);
  EXPECT_FALSE(file->verifiedWhole());
}

TEST_F(DiskErrorTest, AnotherFilesFailedSyncDoesNotFailAWrite) {
  close(std::move(cache));
  tuning.mostClaims = 1;
  cache = open(files);
  const auto other = written(2);
  const auto file = acquire(1);
  files.inject(FileCall::kSync, 1, EIO);
  const Status done = run(writeWhole(file, 0));
  EXPECT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(file->resident(0));
  EXPECT_FALSE(other->resident(0));
}

TEST_F(DiskErrorTest, AnotherFilesFailedSyncDoesNotKeepAViewFromBeingBuilt) {
  (void)claimed(1);
  const auto other = written(2);
  files.inject(FileCall::kSync, 1, EIO);
  ManifestBuilder builder(false);
  builder.add({.path = "one", .size = kSmall, .key = keyOf(1)});
  const auto bytes = builder.build();
  const auto view = run(cache->buildView(*Manifest::parse(*bytes)));
  EXPECT_TRUE(view.ok()) << view.error().message;
  EXPECT_FALSE(other->resident(0));
}

}  // namespace
}  // namespace hearth
