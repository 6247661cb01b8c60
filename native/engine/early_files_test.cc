// Small files through mounts: read by the daemon, and ahead of their reader.
#include "mount/early_files.h"

#include <fcntl.h>

#include "engine/testing_reader.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::size_t kFiles = 40;
constexpr std::uint64_t kSmall = 20'000;
constexpr std::uint32_t kStep = 128u << 10;

class EarlyFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kFiles; ++i)
      origin.add("part" + std::to_string(100 + i), kSmall + 8 * i);
    origin.add("zlarge", DatasetSource::kPassthroughFromBytes);
    dataset = agent.add(origin);
    agent.beginWarm(dataset);
    ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    source =
        std::make_unique<DatasetSource>(*agent.engine().commons().mounting, dataset, "test", true);
    agent.await(
        agent.engine().contents().letGo(dataset, filesOf(*dataset->manifest), LetGo::kMemory));
  }
  [[nodiscard]] std::uint32_t entryOf(std::size_t file) const {
    return *dataset->manifest->lookUp(origin.names()[file]);
  }
  [[nodiscard]] std::string path(std::size_t file) const {
    const ContentKey key = dataset->manifest->entry(entryOf(file)).key;
    return agent.engine().commons().cache->find(key)->path();
  }
  void expectAll() {
    for (std::size_t i = 0; i < kFiles; ++i) expectFile(*source, origin, i, kStep);
  }

  Origin origin;
  mutable Agent agent{"one"};
  std::shared_ptr<Dataset> dataset;
  std::unique_ptr<DatasetSource> source;
};

TEST_F(EarlyFilesTest, TheDaemonReadsSmallFiles) {
  EXPECT_FALSE(source->passesThrough(dataset->manifest->entry(entryOf(0))));
  EXPECT_TRUE(source->passesThrough(dataset->manifest->entry(entryOf(kFiles))));
  const auto small = source->openFile(entryOf(0));
  const auto large = source->openFile(entryOf(kFiles));
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ((*small)->backing().code(), ErrorCode::kNotFound);
  EXPECT_TRUE((*large)->backing().ok());
}

TEST_F(EarlyFilesTest, AReaderOfAFolderFindsTheNextFiles) {
  EarlyFiles& found = *agent.engine().commons().mounting->earlyFiles;
  // Either of two shards may hear of its file first, so the reader goes on.
  EarlyFile file;
  for (std::size_t next = 0; next + 3 < kFiles && file.fetch == nullptr; ++next) {
    expectFile(*source, origin, next, kStep);
    for (int looks = 0; looks < 50 && file.fetch == nullptr; ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      file = found.take(*dataset, entryOf(next + 3));
    }
  }
  ASSERT_NE(file.fetch, nullptr);
  EXPECT_EQ(file.bytes->size(), file.fetch->reference.about.size);
  expectAll();
  expectAll();
}

TEST_F(EarlyFilesTest, WhatTheDiskHasLostIsFetchedAgain) {
  for (const std::size_t file : {std::size_t{2}, std::size_t{3}, std::size_t{20}}) {
    chmod(path(file).c_str(), 0644);
    std::fstream bytes(path(file), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(5000);
    bytes.write("?", 1);
  }
  expectAll();
  EXPECT_GE(agent.engine().commons().cache->statistics().corruptBlocks, 3u);
}

TEST_F(EarlyFilesTest, AnAgentClosesWhileFilesAreReadAhead) {
  expectFile(*source, origin, 0, kStep);
  expectFile(*source, origin, 1, kStep);
  agent.engine().close();
}

TEST(EarlyFiles, GiveAFileOnce) {
  EarlyFiles files;
  const auto dataset = std::make_shared<Dataset>(nullptr, "one", [](EngineEvent) {});
  const auto fileOf = [&dataset](std::uint32_t entry) {
    FileReference reference;
    reference.dataset = dataset;
    reference.about.index = entry;
    return std::make_shared<FileFetch>(
        reference,
        std::make_shared<KeyFetch>(ContentKey{}, 1, nullptr, std::make_shared<LoadedChunks>()));
  };
  const auto former = fileOf(1);
  const auto later = fileOf(1);
  files.put({former, nullptr});
  files.put({later, nullptr});
  files.drop(*former);  // has been replaced
  EXPECT_EQ(files.take(*dataset, 2).fetch, nullptr);
  EXPECT_EQ(files.take(*dataset, 1).fetch, later);
  EXPECT_EQ(files.take(*dataset, 1).fetch, nullptr);
  files.put({former, nullptr});
  files.drop(*former);
  EXPECT_EQ(files.take(*dataset, 1).fetch, nullptr);
  EXPECT_EQ(former.use_count(), 1);
}

}  // namespace
}  // namespace hearth::testing_cluster
