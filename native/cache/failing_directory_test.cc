// Two cache directories of which one fails: the other takes new files, and nothing else changes.
#include <gtest/gtest.h>

#include "base/testing/eventually.h"
#include "cache/cache_testing.h"
#include "cache/shard_threads.h"
#include "files/testing/faulty_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

constexpr std::uint64_t kSize = 300'000;

class FailingDirectoryTest : public testing::Test {
 protected:
  void TearDown() override { close(); }

  // Of two, the one that fails is the first choice for nearly all files.
  Status open() {
    tuning.retryDisk = std::chrono::milliseconds(10);
    auto opened =
        run(openContentCache({{bad, std::uint64_t{1} << 40, 0}, {good, std::uint64_t{1} << 25, 0}},
                             {{*reactor, files}}, tuning));
    if (!opened.ok()) return opened.error();
    cache = std::move(*opened);
    return {};
  }
  void close() {
    if (cache) run(cache->close());
    cache.reset();
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::shared_ptr<CachedFile> acquire(std::uint64_t n) {
    auto acquired = run(cache->acquire(keyOf(n), kSize, false));
    EXPECT_TRUE(acquired.ok());
    return *acquired;
  }
  Status store(const std::shared_ptr<CachedFile>& file) {
    const Status written = run(writeWhole(file, 0));
    return written.ok() ? run(file->claimed()) : written;
  }
  [[nodiscard]] std::string failure() const { return cache->statistics().directories[0].failure; }
  // Background work of the cache runs meanwhile.
  bool becomesGood() {
    return eventually([&] {
      run([](Reactor& on) -> Task<void> {
        co_await on.sleep(std::chrono::milliseconds(5));
      }(*reactor));
      return failure().empty();
    });
  }
  [[nodiscard]] std::uint64_t usedOnBad() const {
    return cache->statistics().directories[0].usedBytes;
  }
  [[nodiscard]] bool onGood(const CachedFile& file) const { return file.path().starts_with(good); }

  TemporaryFolder folder;
  const std::string bad = folder.path + "/bad", good = folder.path + "/good";
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  const std::shared_ptr<DiskFaults> faults = std::make_shared<DiskFaults>(bad);
  FaultyFileSystem files{*reactor, faults};
  CacheTuning tuning;
  std::unique_ptr<ContentCache> cache;
};

TEST_F(FailingDirectoryTest, NewFilesGoToTheOther) {
  ASSERT_TRUE(open().ok());
  auto file = acquire(1);
  ASSERT_TRUE(store(file).ok());
  EXPECT_FALSE(onGood(*file));
  ASSERT_TRUE(store(acquire(5)).ok()) << "on the other, which is emptier now";
  faults->setReadOnly(true);
  file = acquire(2);
  ASSERT_FALSE(store(file).ok()) << "nobody knew";
  EXPECT_TRUE(file->misplaced());
  EXPECT_NE(failure(), "");
  file.reset();
  file = acquire(2);
  EXPECT_TRUE(onGood(*file));
  EXPECT_TRUE(store(file).ok());
  EXPECT_TRUE(onGood(*acquire(3)));
  EXPECT_TRUE(holds(*acquire(1), 0)) << "what it has is read";
  faults->setReadOnly(false);
  ASSERT_TRUE(becomesGood());
  EXPECT_FALSE(onGood(*acquire(4)));
}

TEST_F(FailingDirectoryTest, AFileThatWasBegunThereIsBegunAgain) {
  ASSERT_TRUE(open().ok());
  auto file = *run(cache->acquire(keyOf(1), 2 * kChunkBytes, false));
  ASSERT_TRUE(run(writeWhole(file, 0)).ok());
  faults->setReadOnly(true);
  faults->refuse({DiskCall::kWrite}, EIO);
  ASSERT_FALSE(run(writeWhole(file, 1)).ok());
  auto user = *run(cache->acquire(keyOf(1), 2 * kChunkBytes, false));
  EXPECT_EQ(user, file) << "a file that is in use stays";
  user.reset();
  file.reset();
  file = *run(cache->acquire(keyOf(1), 2 * kChunkBytes, false));
  EXPECT_TRUE(onGood(*file));
  for (const std::uint32_t chunk : {0u, 1u}) ASSERT_TRUE(run(writeWhole(file, chunk)).ok());
  EXPECT_TRUE(run(file->claimed()).ok());
  EXPECT_NE(usedOnBad(), 0u) << "what was begun there takes up room";
  faults->setReadOnly(false);
  ASSERT_TRUE(becomesGood());
  EXPECT_EQ(usedOnBad(), 0u);
  EXPECT_TRUE(holds(*file, 1)) << "on the other disk";
}

TEST_F(FailingDirectoryTest, TheOthersOpenWithoutIt) {
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(store(acquire(1)).ok());
  close();
  faults->setReadOnly(true);
  ASSERT_TRUE(open().ok());
  EXPECT_NE(failure(), "");
  EXPECT_EQ(cache->residentBytes(keyOf(1)), 0u);
  const auto file = acquire(2);
  EXPECT_TRUE(store(file).ok());
  EXPECT_TRUE(onGood(*file));
  faults->setReadOnly(false);
  ASSERT_TRUE(becomesGood());
  EXPECT_EQ(cache->residentBytes(keyOf(1)), kSize) << "what it had is there again";
}

TEST_F(FailingDirectoryTest, FilesAreSharedOutByBudgets) {
  auto opened =
      run(openContentCache({{bad, std::uint64_t{30} << 20, 0}, {good, std::uint64_t{10} << 20, 0}},
                           {{*reactor, files}}, tuning));
  ASSERT_TRUE(opened.ok());
  cache = std::move(*opened);
  int onTheSmall = 0;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const auto file = acquire(n);
    ASSERT_TRUE(run(writeWhole(file, 0)).ok());
    onTheSmall += onGood(*file) ? 1 : 0;
  }
  EXPECT_EQ(onTheSmall, 10);
}

TEST_F(FailingDirectoryTest, AFullDiskLeavesNewFilesToTheOther) {
  ASSERT_TRUE(open().ok());
  auto file = acquire(1);
  faults->fill(true);
  ASSERT_EQ(store(file).code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(failure(), "") << "it works";
  EXPECT_TRUE(file->misplaced());
  file.reset();
  file = acquire(1);
  EXPECT_TRUE(onGood(*file));
  EXPECT_TRUE(store(file).ok());
}

TEST_F(FailingDirectoryTest, NoneOpensWhenAllFail) {
  faults->setReadOnly(true);
  auto opened =
      run(openContentCache({{bad, std::uint64_t{1} << 30, 0}}, {{*reactor, files}}, tuning));
  EXPECT_EQ(opened.code(), ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace hearth
