#include "cache/content_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "cache/cache_testing.h"
#include "cache/shard_threads.h"
#include "cache/space_budget.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace testing_support;

class ContentCacheTest : public testing::Test {
 protected:
  static constexpr std::size_t kShards = 2;

  Result<std::unique_ptr<ContentCache>> tryOpen(std::vector<CacheDirectoryOptions> directories) {
    return shards.run(0, ContentCache::open(std::move(directories), shards.contexts()));
  }
  void open(std::uint64_t budget = std::uint64_t{1} << 30) {
    auto opened = tryOpen({{folder.path + "/cache", budget, 0}});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache = std::move(*opened);
  }
  void close() {
    if (cache) shards.run(0, cache->close());
    cache.reset();
  }
  void TearDown() override { close(); }

  static std::size_t shardOfKey(const ContentKey& key) { return shardOf(key, kShards); }
  Status put(const ContentKey& key, std::uint64_t size) {
    return shards.run(shardOfKey(key), fill(*cache, key, size));
  }
  std::shared_ptr<CachedFile> acquire(const ContentKey& key, std::uint64_t size,
                                      bool executable = false) {
    auto acquired = shards.run(shardOfKey(key), cache->acquire(key, size, executable));
    EXPECT_TRUE(acquired.ok()) << acquired.error().message;
    return *acquired;
  }
  static void overwrite(const std::string& path, std::uint64_t offset) {
    chmod(path.c_str(), 0644);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    EXPECT_EQ(pwrite(descriptor, "bad bytes", 9, static_cast<off_t>(offset)), 9);
    ::close(descriptor);
  }

  TemporaryFolder folder;
  ShardThreads shards{kShards};
  std::unique_ptr<ContentCache> cache;
};

TEST_F(ContentCacheTest, RestoresWhatWasClaimedAfterARestart) {
  const std::uint64_t large = kChunkBytes * 2 + 70000;
  open();
  ASSERT_TRUE(put(keyOf(1), 16384).ok());
  ASSERT_TRUE(put(keyOf(2), large).ok());
  {
    const auto partial = acquire(keyOf(3), large, true);
    ASSERT_TRUE(shards.run(shardOfKey(keyOf(3)), writeWhole(partial, 2)).ok());
    ASSERT_TRUE(shards.run(shardOfKey(keyOf(3)), partial->claimed()).ok());
  }
  const std::string objects = folder.path + "/cache/objects/";
  close();
  std::ofstream(objects + "03/" + keyOf(19).hex()) << "without a claim";
  std::ofstream(objects + "03/notes.txt") << "not ours";
  open();
  EXPECT_FALSE(std::filesystem::exists(objects + "03/" + keyOf(19).hex()));
  EXPECT_TRUE(std::filesystem::exists(objects + "03/notes.txt"));
  const auto small = cache->find(keyOf(1));
  ASSERT_NE(small, nullptr);
  EXPECT_TRUE(small->complete() && holds(*small, 0));
  const auto whole = cache->find(keyOf(2));
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->residentBytes(), large);
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) EXPECT_TRUE(holds(*whole, chunk)) << chunk;
  EXPECT_EQ(whole->blockChecksums(2), checksumsOf(chunkData(keyOf(2), large, 2)));
  const auto partial = cache->find(keyOf(3));
  ASSERT_NE(partial, nullptr);
  EXPECT_FALSE(partial->complete());
  EXPECT_TRUE(holds(*partial, 2));
  EXPECT_FALSE(partial->resident(0));
  EXPECT_EQ(partial->verified(0, 10).code(), ErrorCode::kNotFound);
  struct stat info {};
  ASSERT_EQ(stat(partial->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0555u);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  ASSERT_EQ(stat(whole->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0444u);
}

TEST_F(ContentCacheTest, DropsAFileOfTheWrongSizeForGood) {
  open();
  ASSERT_TRUE(put(keyOf(1), 50000).ok());
  const std::string path = acquire(keyOf(1), 50000)->path();
  close();
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  open();
  EXPECT_EQ(cache->find(keyOf(1)), nullptr);
  EXPECT_FALSE(std::filesystem::exists(path));
  close();
  std::ofstream(path) << std::string(50000, 'x');
  open();
  EXPECT_EQ(cache->find(keyOf(1)), nullptr);
}

TEST_F(ContentCacheTest, AFileWithAHoleWhereItIsClaimedIsCheckedBeforeItIsUsed) {
  open();
  ASSERT_TRUE(put(keyOf(1), kChunkBytes + 50000).ok());
  ASSERT_TRUE(put(keyOf(2), 50000).ok());
  const std::string path = acquire(keyOf(1), kChunkBytes + 50000)->path();
  close();
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  }
  ASSERT_EQ(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65536), 0);
  ::close(descriptor);
  open();
  EXPECT_FALSE(cache->find(keyOf(1)) && cache->find(keyOf(1))->complete());
  while (cache->statistics().doubtfulFiles != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto file = cache->find(keyOf(1));
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->resident(0));
  EXPECT_TRUE(file->resident(1) && holds(*file, 1));
  EXPECT_TRUE(cache->find(keyOf(2))->complete());
  EXPECT_EQ(cache->recoveryNotes().size(), 1u);
}

TEST_F(ContentCacheTest, ASecondOpenerLearnsWhoHasTheDirectory) {
  open();
  const auto second = tryOpen({{folder.path + "/cache", 1 << 20, 0}});
  ASSERT_EQ(second.code(), ErrorCode::kInUse);
  EXPECT_NE(second.error().message.find("process " + std::to_string(getpid())), std::string::npos)
      << second.error().message;
  close();
  EXPECT_NO_FATAL_FAILURE(open());
}

TEST_F(ContentCacheTest, CorruptBlocksAreNeverServedAndCanBeRepaired) {
  open();
  const std::uint64_t size = kChunkBytes + 200000;
  ASSERT_TRUE(put(keyOf(1), size).ok());
  const auto file = cache->find(keyOf(1));
  ASSERT_TRUE(holds(*file, 1));
  overwrite(file->path(), kChunkBytes + 70000);
  EXPECT_TRUE(file->verified(kChunkBytes, 1000).ok()) << "another block of the chunk";
  EXPECT_EQ(file->verified(kChunkBytes + 65000, 1000).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(cache->statistics().corruptBlocks, 1u);
  EXPECT_FALSE(file->resident(1));
  EXPECT_FALSE(file->complete());
  EXPECT_TRUE(file->resident(0));
  const auto inode = [&] {
    struct stat info {};
    stat(file->path().c_str(), &info);
    return info.st_ino;
  };
  const auto before = inode();
  ASSERT_TRUE(shards.run(shardOfKey(keyOf(1)), writeWhole(file, 1)).ok());
  EXPECT_TRUE(holds(*file, 1));
  EXPECT_TRUE(file->complete());
  EXPECT_EQ(inode(), before);
}

TEST_F(ContentCacheTest, AVerifiedFileStaysSoUntilAChunkIsFoundBad) {
  open();
  const std::uint64_t size = kChunkBytes + 200000;
  const std::size_t shard = shardOfKey(keyOf(1));
  Sha256Digest digest;
  digest.fill(7);
  {
    const auto file = acquire(keyOf(1), size);
    ASSERT_TRUE(shards.run(shard, writeWhole(file, 0)).ok());
    EXPECT_EQ(shards.run(shard, file->recordVerified(digest, file->generation())).code(),
              ErrorCode::kNotFound);
    ASSERT_TRUE(shards.run(shard, writeWhole(file, 1)).ok());
    EXPECT_FALSE(file->verifiedWhole());
    ASSERT_TRUE(shards.run(shard, file->recordVerified(digest, file->generation())).ok());
    EXPECT_TRUE(file->verifiedWhole());
  }
  close();
  open();
  const auto file = cache->find(keyOf(1));
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->verifiedWhole());
  const std::uint64_t before = file->generation();
  overwrite(file->path(), 5);
  ASSERT_EQ(file->verified(0, 10).code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(file->verifiedWhole());
  ASSERT_TRUE(shards.run(shard, writeWhole(file, 0)).ok());
  EXPECT_TRUE(file->complete());
  EXPECT_FALSE(file->verifiedWhole()) << "what was verified is not what is there now";
  EXPECT_EQ(shards.run(shard, file->recordVerified(digest, before)).code(), ErrorCode::kConflict);
  EXPECT_TRUE(shards.run(shard, file->recordVerified(digest, file->generation())).ok());
  EXPECT_TRUE(file->verifiedWhole());
}

TEST_F(ContentCacheTest, AScrubFindsWhatIsNotRead) {
  open();
  const std::uint64_t size = kChunkBytes + 200001;
  ASSERT_TRUE(put(keyOf(1), size).ok());
  const auto file = cache->find(keyOf(1));
  EXPECT_EQ(*shards.run(shardOfKey(keyOf(1)), file->scrub({})), size);
  overwrite(file->path(), size - 9);
  const auto checked = shards.run(shardOfKey(keyOf(1)), file->scrub({}));
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(*checked, size - 200001 % kBlockBytes);
  EXPECT_TRUE(file->resident(0));
  EXPECT_FALSE(file->resident(1));
}

TEST_F(ContentCacheTest, ReadsWholeChunksPastThePageCache) {
  open();
  const std::uint64_t size = 2 * kChunkBytes + 200001;
  ASSERT_TRUE(put(keyOf(1), size).ok());
  ASSERT_TRUE(put(keyOf(2), 5000).ok());  // small: through the page cache
  const auto shard = shardOfKey(keyOf(1));
  const auto file = cache->find(keyOf(1));
  struct alignas(4096) Page {
    std::array<std::byte, 4096> bytes;
  };
  std::vector<Page> pages(kChunkBytes / sizeof(Page));
  const std::span<std::byte> into = std::as_writable_bytes(std::span(pages));
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    ASSERT_TRUE(shards.run(shard, file->readChunk(chunk, into)).ok());
    const auto length = std::min(kChunkBytes, size - chunk * kChunkBytes);
    EXPECT_TRUE(
        std::ranges::equal(into.first(length), *file->verified(chunk * kChunkBytes, length)));
  }
  const auto small = cache->find(keyOf(2));
  ASSERT_TRUE(shards.run(shardOfKey(keyOf(2)), small->readChunk(0, into)).ok());
  EXPECT_TRUE(std::ranges::equal(into.first(5000), *small->verified(0, 5000)));
  EXPECT_EQ(shards.run(shard, file->readChunk(3, into)).code(), ErrorCode::kNotFound);
  overwrite(file->path(), size - 9);
  EXPECT_EQ(shards.run(shard, file->readChunk(2, into)).code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(file->resident(2)) << "what is bad is fetched again";
  EXPECT_EQ(shards.run(shard, file->readChunk(2, into)).code(), ErrorCode::kNotFound);
  EXPECT_EQ(cache->statistics().corruptBlocks, 1u);
}

TEST_F(ContentCacheTest, ReadsSmallFilesAsAWhole) {
  open();
  constexpr std::uint64_t kSize = kBlockBytes + 5000;
  ASSERT_TRUE(put(keyOf(1), kSize).ok());
  ASSERT_TRUE(put(keyOf(2), kChunkBytes + 1).ok());
  const auto file = cache->find(keyOf(1));
  std::vector<std::byte> bytes(kSize);
  ASSERT_TRUE(file->readWhole(bytes).ok());
  EXPECT_TRUE(std::ranges::equal(bytes, *file->verified(0, kSize)));
  EXPECT_EQ(file->readWhole(std::span(bytes).first(10)).code(), ErrorCode::kInvalidArgument);
  std::vector<std::byte> more(kChunkBytes + 1);
  EXPECT_EQ(cache->find(keyOf(2))->readWhole(more).code(), ErrorCode::kInvalidArgument)
      << "more than a chunk";
  overwrite(file->path(), kBlockBytes + 7);
  EXPECT_EQ(file->readWhole(bytes).code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(file->resident(0));
  EXPECT_EQ(file->readWhole(bytes).code(), ErrorCode::kNotFound);
}

// By a clock of its own: the wall clock's may be set while the process runs.
TEST_F(ContentCacheTest, WhatWasScrubbedIsDueAgainAfterTheInterval) {
  using std::chrono::hours;
  const auto due = [this](Clock::time_point before) {
    return cache->leastRecentlyScrubbed(0, before, 10);
  };
  open();
  ASSERT_TRUE(put(keyOf(1), 50000).ok());
  const auto now = Clock::now();
  EXPECT_TRUE(due(now - hours(1)).empty()) << "it was made now";
  EXPECT_EQ(due(now + hours(1)), std::vector{keyOf(1)});
  cache->noteScrubbed(keyOf(1), now + hours(2));
  EXPECT_TRUE(due(now + hours(2)).empty());
  EXPECT_EQ(due(now + hours(3)), std::vector{keyOf(1)});
  close();
  open();
  ASSERT_TRUE(put(keyOf(2), 50000).ok());
  // However short the machine has run.
  EXPECT_EQ(due(Clock::time_point() - hours(24)), std::vector{keyOf(1)}) << "after a start";
  EXPECT_EQ(due(now + hours(24)), (std::vector{keyOf(1), keyOf(2)})) << "the longest ago first";
}

TEST_F(ContentCacheTest, AMappedPageThatCannotBeReadIsCorruptAndNotTheEndOfTheProcess) {
  open();
  ASSERT_TRUE(put(keyOf(1), 300000).ok());
  const auto file = cache->find(keyOf(1));
  ASSERT_TRUE(holds(*file, 0));
  ASSERT_EQ(truncate(file->path().c_str(), 10), 0);
  const auto read = file->verified(200000, 1000);
  EXPECT_EQ(read.code(), ErrorCode::kCorrupt);
  EXPECT_NE(read.error().message.find("cannot be read"), std::string::npos);
}

TEST_F(ContentCacheTest, TwoShardsNeverExceedTheBudget) {
  constexpr std::uint64_t kSize = 100000;
  constexpr std::uint64_t kRoom = 20 * 102400;
  open(kRoom);
  std::vector<std::future<Status>> writes;
  for (std::uint64_t n = 0; n < 120; ++n) {
    writes.push_back(shards.start(shardOfKey(keyOf(n)), fill(*cache, keyOf(n), kSize)));
  }
  for (auto& write : writes) {
    while (write.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
      EXPECT_LE(cache->statistics().directories[0].usedBytes, kRoom);
    }
    const Status done = write.get();
    // Everything may be in use at the same moment.
    EXPECT_TRUE(done.ok() || done.code() == ErrorCode::kOutOfSpace) << done.error().message;
  }
  std::uint64_t resident = 0;
  for (std::uint64_t n = 0; n < 120; ++n) {
    const auto file = cache->find(keyOf(n));
    if (!file) continue;
    ++resident;
    EXPECT_TRUE(holds(*file, 0));
  }
  EXPECT_GT(resident, 5u);
  EXPECT_LE(resident, 20u);
  close();
  std::uint64_t onDisk = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder.path + "/cache/objects")) {
    onDisk += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(onDisk, resident);
}

TEST_F(ContentCacheTest, ReadersOnOtherThreadsSeeChunksAppear) {
  open();
  const std::uint64_t size = 3 * kChunkBytes;
  const auto file = acquire(keyOf(1), size);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    std::uint32_t seen = 0;
    while (!stop || seen < 3) {
      seen = 0;
      for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
        if (!file->resident(chunk)) continue;
        ++seen;
        EXPECT_TRUE(file->verified(chunk * kChunkBytes + 5000, 70000).ok());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_TRUE(shards.run(shardOfKey(keyOf(1)), writeWhole(file, chunk)).ok());
  }
  stop = true;
  reader.join();
}

Task<Status> writeTwice(std::shared_ptr<CachedFile> file, Reactor& reactor) {
  Status first;
  Gate gate(reactor);
  struct Writer {
    static Task<void> run(std::shared_ptr<CachedFile> to, Status& done) {
      done = co_await writeWhole(to, 0);
    }
  };
  gate.spawn(Writer::run(file, first));
  const Status second = co_await writeWhole(file, 0);
  co_await gate.close();
  co_return first.ok() ? second : first;
}

TEST_F(ContentCacheTest, TwoWritersOfOneChunkChargeItOnce) {
  open();
  const std::size_t shard = shardOfKey(keyOf(1));
  const auto file = acquire(keyOf(1), 50000);
  EXPECT_TRUE(shards.run(shard, writeTwice(file, shards.contexts()[shard].reactor)).ok());
  EXPECT_EQ(cache->statistics().directories[0].usedBytes, allocatedBytes(50000));
}

TEST_F(ContentCacheTest, NewKeysGoWhereMostRoomIsLeft) {
  auto opened = tryOpen({{folder.path + "/a", 300 << 10, 0}, {folder.path + "/b", 500 << 10, 0}});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  cache = std::move(*opened);
  const auto first = acquire(keyOf(1), 400 << 10);
  EXPECT_TRUE(first->path().starts_with(folder.path + "/b/"));
  // Promised, though not yet written.
  const auto second = acquire(keyOf(2), 200 << 10);
  EXPECT_TRUE(second->path().starts_with(folder.path + "/a/"));
  ASSERT_TRUE(put(keyOf(1), 400 << 10).ok());
  ASSERT_TRUE(put(keyOf(2), 200 << 10).ok());
  close();
  opened = tryOpen({{folder.path + "/b", 500 << 10, 0}, {folder.path + "/a", 300 << 10, 0}});
  ASSERT_TRUE(opened.ok());
  cache = std::move(*opened);
  EXPECT_TRUE(cache->find(keyOf(1))->complete());
  EXPECT_TRUE(cache->find(keyOf(2))->complete());
}

TEST_F(ContentCacheTest, RefusesWhatCannotBeACacheDirectory) {
  EXPECT_EQ(tryOpen({{"relative", 1, 0}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(tryOpen({{"/proc/hearth", 1, 0}}).code(), ErrorCode::kNotFound);
  EXPECT_EQ(tryOpen({}).code(), ErrorCode::kInvalidArgument);
}

TEST_F(ContentCacheTest, AnEmptyFileIsCompleteAndThere) {
  open();
  const auto file = acquire(keyOf(1), 0);
  EXPECT_TRUE(file->complete());
  EXPECT_FALSE(std::filesystem::exists(file->path())) << "its readers do not need it";
  ASSERT_TRUE(shards.run(shardOfKey(keyOf(1)), file->claimed()).ok());
  EXPECT_TRUE(std::filesystem::exists(file->path()));
  EXPECT_TRUE(file->verified(0, 0).ok());
  EXPECT_GE(*file->descriptor(), 0);
  EXPECT_NE(cache->find(keyOf(1)), nullptr);
}

}  // namespace
}  // namespace hearth
