// What an agent finds of those before it. /dev/null stands for /dev/fuse: it refuses every backing
// file, so only ids that were inherited lead to passthrough, and a reason says who asked for more.
#include "fuse/open_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <filesystem>

#include "fuse/testing/test_source.h"

namespace hearth::fuse_testing {
namespace {

constexpr std::int32_t kBacking = 5;

class OpenFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::vector<ManifestRow> rows(2);
    rows[0].path = "digest";
    rows[0].sourceDigest = Sha256Digest{};
    rows[1].path = "plain";
    for (ManifestRow& row : rows) row.size = 10;
    source_.emplace(manifestOf(std::move(rows)), folder_.string());
    for (const char* path : {"digest", "plain"}) source_->setComplete(path, true);
    OwnedFd memory(memfd_create("open-files-test", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
    auto counts = OpenCounts::map(memory);
    ASSERT_TRUE(counts.ok());
    counts_ = std::move(*counts);
    device_.emplace(OwnedFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
    files_.emplace(*source_, *device_, *counts_, counters_, passthrough_);
  }
  void TearDown() override {
    files_.reset();
    source_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  ManifestEntry entry(const std::string& path) const {
    return source_->manifest().entry(*source_->manifest().lookUp(path));
  }
  std::uint64_t node(const std::string& path) const {
    return encodeNodeId({entry(path).index, NodeKind::kFile});
  }
  // That an earlier release gave out for passthrough, in the mount's third epoch.
  std::uint64_t earlierNode(const std::string& path) const {
    return std::uint64_t{entry(path).index} | std::uint64_t{3} << 32 | std::uint64_t{3} << 34;
  }
  int open(std::uint64_t node, OpenAnswer& answer) {
    return files_->open(node, source_->manifest().entry(decodeNodeId(node)->entry), answer);
  }
  // No node that is not recorded has room now.
  void fillCounts() {
    for (std::uint64_t other = 1000; other < 3000; ++other) counts_->set(other, {.cached = 1});
    ASSERT_TRUE(counts_->overflowed());
  }
  OpenCount recorded(std::uint64_t node) const {
    OpenCount found;
    counts_->each([&](std::uint64_t at, const OpenCount& count) {
      if (at == node) found = count;
    });
    return found;
  }

  std::filesystem::path folder_;
  std::optional<TestSource> source_;
  std::unique_ptr<OpenCounts> counts_;
  std::optional<FuseDevice> device_;
  FuseCounters counters_;
  std::atomic<bool> passthrough_{true};
  std::optional<OpenFiles> files_;
  OpenAnswer answer_;
};

TEST_F(OpenFilesTest, ANodeKeepsTheBackingFileThatItIsOpenWith) {
  for (const std::uint64_t id : {node("plain"), earlierNode("digest")}) {
    counts_->set(id, {.passthrough = 1, .backingId = kBacking});
  }
  files_->inherit();
  for (const std::uint64_t id : {node("plain"), earlierNode("digest")}) {
    ASSERT_EQ(open(id, answer_), 0);
    EXPECT_EQ(answer_.mode, OpenMode::kPassthrough);
    EXPECT_EQ(answer_.backingId, kBacking);
    EXPECT_EQ(recorded(id), (OpenCount{.passthrough = 2, .backingId = kBacking}));
    files_->release(id, OpenMode::kPassthrough);
    files_->release(id, OpenMode::kPassthrough);
    EXPECT_FALSE(recorded(id).any());
  }
  EXPECT_EQ(files_->passthroughReason(), "") << "asked for a backing file";
}

TEST_F(OpenFilesTest, ANodeThatIsOpenThroughTheDaemonStaysSoUntilItIsClosed) {
  for (const std::uint64_t id : {node("plain"), earlierNode("digest")}) {
    counts_->set(id, {.cached = 1});
  }
  files_->inherit();
  for (const std::uint64_t id : {node("plain"), earlierNode("digest")}) {
    EXPECT_TRUE(files_->opensByDaemon(id));
    ASSERT_EQ(open(id, answer_), 0);
    EXPECT_EQ(answer_.mode, OpenMode::kDaemon);
    files_->release(id, OpenMode::kDaemon);
    EXPECT_TRUE(files_->opensByDaemon(id));
    files_->release(id, OpenMode::kDaemon);
    EXPECT_FALSE(files_->opensByDaemon(id));
  }
  EXPECT_EQ(files_->passthroughReason(), "") << "asked for a backing file";
  ASSERT_EQ(open(node("plain"), answer_), 0);
  EXPECT_NE(files_->passthroughReason(), "") << "the first open takes the best way";
}

TEST_F(OpenFilesTest, AnOpenThatIsNotRecordedIsTheDaemons) {
  counts_->set(earlierNode("plain"), {.passthrough = 1, .backingId = kBacking});
  files_->inherit();
  fillCounts();
  ASSERT_EQ(open(node("plain"), answer_), 0);
  EXPECT_EQ(answer_.mode, OpenMode::kDaemon);
  EXPECT_EQ(counters_.passthroughOpens, 0U);
  // The other one has its place.
  ASSERT_EQ(open(earlierNode("plain"), answer_), 0);
  EXPECT_EQ(answer_.mode, OpenMode::kPassthrough);
}

TEST_F(OpenFilesTest, WhatMayBeOpenWithoutARecordIsOpenedThroughTheDaemon) {
  counts_->set(node("digest"), {.passthrough = 1, .backingId = kBacking});
  fillCounts();
  files_->inherit();
  EXPECT_TRUE(files_->opensByDaemon(node("plain")));
  ASSERT_EQ(open(node("plain"), answer_), 0);
  EXPECT_EQ(answer_.mode, OpenMode::kDaemon);
  EXPECT_EQ(files_->passthroughReason(), "") << "asked for a backing file";
  ASSERT_EQ(open(node("digest"), answer_), 0);
  EXPECT_EQ(answer_.mode, OpenMode::kPassthrough);
  // Earlier releases left opens by passthrough unrecorded: the kernel comes with another node.
  EXPECT_EQ(open(earlierNode("plain"), answer_), ESTALE);
}

TEST_F(OpenFilesTest, PagesOfAnEarlierAgentAreReadAgainOnce) {
  for (const char* path : {"digest", "plain"}) counts_->set(node(path), {.cached = 1});
  files_->inherit();
  ASSERT_EQ(open(node("plain"), answer_), 0);
  EXPECT_TRUE(answer_.keepsPages);
  ASSERT_EQ(open(node("digest"), answer_), 0);
  EXPECT_FALSE(answer_.keepsPages);
  ASSERT_EQ(open(node("digest"), answer_), 0);
  EXPECT_FALSE(answer_.keepsPages) << "the kernel has not heard it yet";
  files_->pagesDropped(node("digest"), answer_.withdrawn);
  ASSERT_EQ(open(node("digest"), answer_), 0);
  EXPECT_TRUE(answer_.keepsPages);
}

}  // namespace
}  // namespace hearth::fuse_testing
