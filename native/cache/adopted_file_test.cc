// Files that others wrote, taken into a cache as they are.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cache/cache_testing.h"
#include "cache/content_cache.h"
#include "cache/shard_threads.h"

namespace hearth {
namespace {

using namespace testing_support;

class AdoptedFileTest : public testing::Test {
 protected:
  static constexpr std::size_t kShards = 2;
  static constexpr std::uint64_t kSize = 2 * kChunkBytes + 70'000;

  void SetUp() override { open(); }
  void TearDown() override { close(); }
  void open(std::uint64_t budget = std::uint64_t{1} << 30) {
    auto opened = shards_.run(
        0, ContentCache::open({{folder_.path + "/cache", budget, 0}}, shards_.contexts()));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache_ = std::move(*opened);
  }
  void close() {
    if (cache_) shards_.run(0, cache_->close());
    cache_.reset();
  }
  // A file beside the cache's own, with the bytes of the key.
  FileToAdopt written() {
    FileToAdopt file{.key = key_, .size = kSize, .path = folder_.path + "/cache/written"};
    std::ofstream to(file.path, std::ios::binary);
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
      const std::vector<std::byte> data = chunkData(key_, kSize, chunk);
      to.write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
      const auto sums = checksumsOf(data);
      file.blockChecksums.insert(file.blockChecksums.end(), sums.begin(), sums.end());
    }
    return file;
  }
  Result<std::shared_ptr<CachedFile>> adopt(FileToAdopt file) {
    return shards_.run(shardOf(key_, kShards), cache_->adopt(std::move(file)));
  }

  TemporaryFolder folder_;
  ShardThreads shards_{kShards};
  const ContentKey key_ = keyOf(3);
  std::unique_ptr<ContentCache> cache_;
};

TEST_F(AdoptedFileTest, IsCompleteAtOnceAndFoundAgain) {
  const FileToAdopt file = written();
  {
    const auto adopted = adopt(file);
    ASSERT_TRUE(adopted.ok()) << adopted.error().message;
    EXPECT_TRUE((*adopted)->complete());
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) EXPECT_TRUE(holds(**adopted, chunk));
    ASSERT_TRUE(shards_.run(shardOf(key_, kShards), (*adopted)->claimed()).ok());
  }
  EXPECT_TRUE(std::filesystem::exists(file.path));
  EXPECT_GE(cache_->statistics().directories.front().usedBytes, kSize);
  close();
  open();
  const auto found = cache_->find(key_);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->complete());
  EXPECT_TRUE(holds(*found, 2));
}

TEST_F(AdoptedFileTest, StaysWhileItIsPinnedAndGoesLikeAnyOther) {
  cache_->pin(key_, "volume:1");
  const FileToAdopt file = written();
  ASSERT_TRUE(adopt(file).ok());
  const auto evict = [this] { return *shards_.run(0, cache_->evict(key_)); };
  EXPECT_EQ(evict(), EvictOutcome::kPinned);
  cache_->unpin(key_, "volume:1");
  EXPECT_EQ(evict(), EvictOutcome::kEvicted);
  EXPECT_EQ(cache_->statistics().directories.front().usedBytes, 0u);
  // It keeps its own name.
  EXPECT_EQ(std::filesystem::file_size(file.path), kSize);
  EXPECT_TRUE(adopt(file).ok());
}

TEST_F(AdoptedFileTest, IsReadByOneWhoAcquiredTheKeyBefore) {
  const std::size_t shard = shardOf(key_, kShards);
  const auto early = shards_.run(shard, cache_->acquire(key_, kSize, false));
  ASSERT_TRUE(early.ok());
  EXPECT_FALSE((*early)->resident(0));
  const auto adopted = adopt(written());
  ASSERT_TRUE(adopted.ok()) << adopted.error().message;
  EXPECT_EQ(*adopted, *early);
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) EXPECT_TRUE(holds(**early, chunk));
}

TEST_F(AdoptedFileTest, AFailureLeavesNothingToOneWhoAcquiredTheKeyBefore) {
  const std::size_t shard = shardOf(key_, kShards);
  const auto early = shards_.run(shard, cache_->acquire(key_, kSize, false));
  ASSERT_TRUE(early.ok());
  FileToAdopt file = written();
  ASSERT_TRUE(std::filesystem::remove(file.path));
  EXPECT_FALSE(adopt(file).ok());
  const std::vector<std::byte> data = chunkData(key_, kSize, 1);
  EXPECT_TRUE(shards_.run(shard, (*early)->writeChunk(1, data, checksumsOf(data))).ok());
  EXPECT_TRUE(holds(**early, 1));
  EXPECT_EQ(adopt(written()).code(), ErrorCode::kAlreadyExists);
}

TEST_F(AdoptedFileTest, IsNotTakenBesideAnotherOrWithOtherSums) {
  FileToAdopt file = written();
  file.blockChecksums.pop_back();
  EXPECT_EQ(adopt(file).code(), ErrorCode::kInvalidArgument);
  file = written();
  file.directory = 1;
  EXPECT_EQ(adopt(file).code(), ErrorCode::kInvalidArgument);
  file = written();
  ASSERT_TRUE(adopt(file).ok());
  EXPECT_EQ(adopt(file).code(), ErrorCode::kAlreadyExists);
  EXPECT_FALSE(adopt({.key = keyOf(4), .size = 1, .path = "/nowhere", .blockChecksums = {0}}).ok());
  EXPECT_EQ(cache_->find(keyOf(4)), nullptr);
}

}  // namespace
}  // namespace hearth
