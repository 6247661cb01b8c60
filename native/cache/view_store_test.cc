#include "cache/view_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "cache/cache_testing.h"
#include "cache/shard_threads.h"

namespace hearth {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

class ViewStoreTest : public testing::Test {
 protected:
  void open() {
    auto opened = shards.run(0, ContentCache::open({{folder.path, 1 << 30, 0}}, shards.contexts()));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache = std::move(*opened);
  }
  void SetUp() override { open(); }
  void close() {
    if (cache) shards.run(0, cache->close());
    cache.reset();
  }
  void TearDown() override { close(); }

  // a/one, a/b/two (executable, and again as a/copy), empty file, empty directory, a symlink.
  std::shared_ptr<const Manifest> manifest(std::uint64_t firstKey) {
    ManifestBuilder builder(false);
    builder.add({.path = "a/one", .size = 20000, .key = keyOf(firstKey)});
    builder.add({.path = "a/b/two", .executable = true, .size = 30000, .key = keyOf(firstKey + 1)});
    builder.add({.path = "a/copy", .size = 30000, .key = keyOf(firstKey + 1)});
    builder.add({.path = "nothing", .size = 0, .key = keyOf(firstKey + 2)});
    builder.add({.path = "hollow", .kind = EntryKind::kDirectory});
    builder.add({.path = "link", .kind = EntryKind::kSymlink, .symlinkTarget = "a/one"});
    const auto bytes = builder.build();
    EXPECT_TRUE(bytes.ok());
    return *Manifest::parse(*bytes);
  }
  void warm(std::uint64_t firstKey) {
    const std::uint64_t sizes[] = {20000, 30000, 0};
    for (std::uint64_t i = 0; i < 3; ++i) {
      const ContentKey key = keyOf(firstKey + i);
      ASSERT_TRUE(shards.run(shardOf(key, 2), fill(*cache, key, sizes[i])).ok());
    }
  }
  Result<std::string> build(std::uint64_t firstKey) {
    return shards.run(0, cache->buildView(manifest(firstKey)));
  }
  static struct stat statOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  static std::vector<std::byte> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }

  static void overwrite(const std::string& path) {
    fs::permissions(path, fs::perms::owner_write, fs::perm_options::add);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << "bad bytes";
  }

  TemporaryFolder folder;
  ShardThreads shards{2};
  std::unique_ptr<ContentCache> cache;
};

TEST_F(ViewStoreTest, LinksACompleteManifestAsAReadOnlyTree) {
  warm(1);
  EXPECT_EQ(cache->viewPath(manifest(1)->digest()), "");
  const auto view = build(1);
  ASSERT_TRUE(view.ok()) << view.error().message;
  EXPECT_EQ(cache->viewPath(manifest(1)->digest()), *view);
  EXPECT_EQ(contents(*view + "/a/one"), chunkData(keyOf(1), 20000, 0));
  EXPECT_EQ(contents(*view + "/a/b/two"), chunkData(keyOf(2), 30000, 0));
  EXPECT_EQ(statOf(*view + "/a/one").st_nlink, 2u);
  EXPECT_EQ(statOf(*view + "/a/copy").st_nlink, 3u);
  EXPECT_EQ(statOf(*view + "/a/one").st_mode & 07777, 0444u);
  EXPECT_EQ(statOf(*view + "/a/b/two").st_mode & 07777, 0555u);
  EXPECT_EQ(statOf(*view + "/nothing").st_size, 0);
  for (const char* const directory : {"", "/a", "/a/b", "/hollow"}) {
    EXPECT_EQ(statOf(*view + directory).st_mode & 07777, 0555u) << directory;
  }
  EXPECT_EQ(fs::read_symlink(*view + "/link"), "a/one");
  EXPECT_EQ(*build(1), *view);
  ASSERT_TRUE(shards.run(0, cache->removeView(manifest(1)->digest())).ok());
  EXPECT_FALSE(fs::exists(*view));
  EXPECT_EQ(statOf(cache->find(keyOf(1))->path()).st_nlink, 1u);
  EXPECT_TRUE(fs::is_empty(folder.path + "/views"));
}

TEST_F(ViewStoreTest, RefusesAnIncompleteManifestAndNamesTheFile) {
  ASSERT_TRUE(shards.run(shardOf(keyOf(1), 2), fill(*cache, keyOf(1), 20000)).ok());
  const auto view = build(1);
  EXPECT_EQ(view.code(), ErrorCode::kNotFound);
  EXPECT_NE(view.error().message.find("is not complete"), std::string::npos)
      << view.error().message;
  EXPECT_TRUE(fs::is_empty(folder.path + "/views"));
}

TEST_F(ViewStoreTest, EvictingAFileRemovesTheViewUnlessItIsPublished) {
  warm(1);
  warm(11);
  const auto published = build(1);
  const auto unpublished = build(11);
  ASSERT_TRUE(published.ok() && unpublished.ok());
  const Sha256Digest digest = manifest(1)->digest();
  ASSERT_TRUE(shards.run(0, cache->publish("volume-1", digest)).ok());
  ASSERT_TRUE(shards.run(0, cache->publish("volume-1", digest)).ok());
  EXPECT_EQ(shards.run(0, cache->publish("volume-1", manifest(11)->digest())).code(),
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(*shards.run(0, cache->evict(keyOf(1))), EvictOutcome::kPublished);
  const Status removal = shards.run(0, cache->removeView(digest));
  EXPECT_EQ(removal.code(), ErrorCode::kInUse);
  EXPECT_NE(removal.error().message.find("volume-1"), std::string::npos);
  EXPECT_EQ(*shards.run(1, cache->evict(keyOf(11))), EvictOutcome::kEvicted);
  EXPECT_FALSE(fs::exists(*unpublished));
  EXPECT_EQ(cache->viewPath(manifest(11)->digest()), "");
  ASSERT_TRUE(shards.run(0, cache->unpublish("volume-1")).ok());
  ASSERT_TRUE(shards.run(0, cache->unpublish("volume-1")).ok());
  EXPECT_EQ(*shards.run(0, cache->evict(keyOf(1))), EvictOutcome::kEvicted);
  EXPECT_FALSE(fs::exists(*published));
}

TEST_F(ViewStoreTest, PublishesWrittenByOthersCountAtOnce) {
  warm(1);
  ASSERT_TRUE(build(1).ok());
  std::ofstream(folder.path + "/published/by-hand")
      << ContentKey{manifest(1)->digest()}.hex() << "\n";
  EXPECT_EQ(*shards.run(0, cache->evict(keyOf(1))), EvictOutcome::kPublished);
  fs::remove(folder.path + "/published/by-hand");
  EXPECT_EQ(*shards.run(0, cache->evict(keyOf(1))), EvictOutcome::kEvicted);
}

TEST_F(ViewStoreTest, ViewsAndPublishesSurviveARestartAndLeftoversDoNot) {
  warm(1);
  warm(11);
  const auto published = build(1);
  const auto broken = build(11);
  ASSERT_TRUE(published.ok() && broken.ok());
  ASSERT_TRUE(shards.run(0, cache->publish("volume-1", manifest(1)->digest())).ok());
  const std::string lost = cache->find(keyOf(11))->path();
  close();
  fs::create_directories(folder.path + "/views/.tmp-left/over");
  std::ofstream(folder.path + "/views/" + std::string(64, 'a') + ".keys") << "without a tree";
  fs::remove(lost);
  open();
  EXPECT_EQ(cache->viewPath(manifest(1)->digest()), *published);
  EXPECT_EQ(*shards.run(0, cache->evict(keyOf(1))), EvictOutcome::kPublished);
  EXPECT_EQ(cache->viewPath(manifest(11)->digest()), "");
  EXPECT_FALSE(fs::exists(*broken));
  std::size_t names = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path + "/views")) ++names;
  EXPECT_EQ(names, 2u) << "the published view and its keys";
}

TEST_F(ViewStoreTest, FilesOfAPublishedViewAreRepairedInTheSameInode) {
  warm(1);
  const auto view = build(1);
  ASSERT_TRUE(view.ok());
  const Sha256Digest digest = manifest(1)->digest();
  ASSERT_TRUE(shards.run(0, cache->publish("volume-1", digest)).ok());
  const auto inode = statOf(*view + "/a/one").st_ino;
  close();
  fs::remove(folder.path + "/residency.log");
  open();
  // Nothing is claimed: the tree stays for whoever has it mounted, and is not offered.
  EXPECT_EQ(cache->viewPath(digest), "");
  EXPECT_TRUE(fs::exists(*view + "/a/one"));
  EXPECT_EQ(cache->find(keyOf(1)), nullptr);
  warm(1);
  EXPECT_EQ(statOf(cache->find(keyOf(1))->path()).st_ino, inode);
  EXPECT_EQ(*build(1), *view);
  EXPECT_EQ(cache->viewPath(digest), *view);
}

TEST_F(ViewStoreTest, AViewWithABadChunkIsNotOfferedUntilItIsRepaired) {
  warm(1);
  const auto view = build(1);
  ASSERT_TRUE(view.ok());
  const Sha256Digest digest = manifest(1)->digest();
  ASSERT_TRUE(shards.run(0, cache->publish("earlier", digest)).ok());
  const auto inode = statOf(*view + "/a/one").st_ino;
  {
    const auto file = cache->find(keyOf(1));
    overwrite(file->path());
    ASSERT_EQ(file->verified(0, 10).code(), ErrorCode::kCorrupt);
  }
  for (const bool restarted : {false, true}) {
    if (restarted) {
      close();
      open();
    }
    EXPECT_EQ(cache->viewPath(digest), "") << restarted;
    EXPECT_EQ(build(1).code(), ErrorCode::kNotFound) << restarted;
    EXPECT_EQ(shards.run(0, cache->publish("later", digest)).code(), ErrorCode::kNotFound);
    EXPECT_TRUE(shards.run(0, cache->publish("earlier", digest)).ok());
  }
  EXPECT_TRUE(fs::exists(*view + "/a/one")) << "it may be mounted";
  warm(1);
  EXPECT_EQ(contents(*view + "/a/one"), chunkData(keyOf(1), 20000, 0));
  EXPECT_EQ(statOf(*view + "/a/one").st_ino, inode);
  EXPECT_EQ(*build(1), *view);
  EXPECT_EQ(cache->viewPath(digest), *view);
  EXPECT_TRUE(shards.run(0, cache->publish("later", digest)).ok());
}

TEST_F(ViewStoreTest, AnUnpublishedViewWithABadChunkGoesAtTheNextStart) {
  warm(1);
  const auto view = build(1);
  ASSERT_TRUE(view.ok());
  {
    const auto file = cache->find(keyOf(2));
    overwrite(file->path());
    ASSERT_EQ(file->verified(0, 10).code(), ErrorCode::kCorrupt);
  }
  close();
  open();
  EXPECT_FALSE(fs::exists(*view));
  EXPECT_EQ(build(1).code(), ErrorCode::kNotFound);
  warm(1);
  ASSERT_TRUE(build(1).ok());
  EXPECT_EQ(contents(*view + "/a/b/two"), chunkData(keyOf(2), 30000, 0));
}

TEST_F(ViewStoreTest, WhatHasJustBecomeCompleteCanBeExecuted) {
  const std::string_view script = "#!/bin/sh\nexit 7\n";
  const auto data = std::as_bytes(std::span(script));
  const std::vector<std::uint32_t> checksums = checksumsOf(data);
  const std::size_t shard = shardOf(keyOf(1), 2);
  auto acquired = shards.run(shard, cache->acquire(keyOf(1), script.size(), true));
  ASSERT_TRUE(acquired.ok());
  ASSERT_TRUE(shards.run(shard, (*acquired)->writeChunk(0, data, checksums)).ok());
  ManifestBuilder builder(false);
  builder.add({.path = "run", .executable = true, .size = script.size(), .key = keyOf(1)});
  const auto view = shards.run(0, cache->buildView(*Manifest::parse(*builder.build())));
  ASSERT_TRUE(view.ok()) << view.error().message;
  // The file is still in use here, as it is by whoever warms it.
  const int status = std::system((*view + "/run").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_F(ViewStoreTest, RefusesNamesThatLeaveTheFolder) {
  for (const char* const name : {"", "..", "a/b", ".hidden"}) {
    EXPECT_EQ(shards.run(0, cache->publish(name, {})).code(), ErrorCode::kInvalidArgument) << name;
    EXPECT_EQ(shards.run(0, cache->unpublish(name)).code(), ErrorCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace hearth
