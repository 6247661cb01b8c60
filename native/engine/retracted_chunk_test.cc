// A file with a bad chunk is never served whole, in any way, until it is repaired.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::size_t kRetractedSize = 3 * kChunkBytes;

class RetractedChunkTest : public testing::Test {
 protected:
  void SetUp() override {
    origin->add("model", kRetractedSize);
    good = origin->bytesOf("model");
    agent.beginWarm(agent.add(*origin));
    ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    restart();  // nothing of it is in memory any more
  }
  // Adds the dataset again after a start.
  void look() {
    dataset = agent.add(*origin);
    entry = filesOf(*dataset->manifest).front();
    key = dataset->manifest->entry(entry).key;
    source =
        std::make_unique<DatasetSource>(*agent.engine().commons().mounting, dataset, "test", true);
  }
  // Changes bytes of the second chunk on the disk, and lets the agent notice.
  void spoil() {
    const std::shared_ptr<CachedFile> file = agent.engine().commons().cache->find(key);
    const int fd = open(file->path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const char bad[16] = {1, 2, 3};
    ASSERT_EQ(pwrite(fd, bad, sizeof bad, kChunkBytes + 5), 16);
    close(fd);
    ASSERT_EQ(file->verified(kChunkBytes, 100).code(), ErrorCode::kCorrupt);
  }
  [[nodiscard]] ErrorCode backing() {
    const auto opened = source->openFile(entry);
    EXPECT_TRUE(opened.ok());
    return (*opened)->backing().code();
  }
  // Reads the whole file at once through the mount.
  [[nodiscard]] std::string read() {
    const auto bytes =
        agent.await(agent.engine().contents().read(dataset, entry, 0, kRetractedSize));
    if (!bytes.ok()) return bytes.error().message;
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  [[nodiscard]] Result<std::string> view() {
    return agent.await(agent.engine().contents().buildView(dataset));
  }
  void expectWithheld(const char* when) {
    EXPECT_FALSE(source->complete(entry)) << when;
    EXPECT_EQ(backing(), ErrorCode::kNotFound) << when;
    EXPECT_EQ(view().code(), ErrorCode::kNotFound) << when;
    EXPECT_EQ(agent.engine().commons().cache->viewPath(dataset->manifest->digest()), "") << when;
  }
  void restart() {
    source.reset();
    dataset.reset();
    agent.stop();
    agent.start();
    look();
  }

  std::unique_ptr<Origin> origin = std::make_unique<Origin>();
  std::string good;
  Agent agent{"one", ScrubOptions{.bytesPerSecond = 0}};  // the scrub repairs nothing
  std::shared_ptr<Dataset> dataset;
  std::uint32_t entry = 0;
  ContentKey key;
  std::unique_ptr<DatasetSource> source;
};

TEST_F(RetractedChunkTest, IsNoBackingAndInNoViewUntilItIsRepaired) {
  EXPECT_EQ(backing(), ErrorCode::kOk);
  ASSERT_TRUE(view().ok());
  spoil();
  expectWithheld("found bad");
  EXPECT_TRUE(read() == good);
  ASSERT_TRUE(eventually([this] { return source->complete(entry); })) << "it is written behind";
  EXPECT_EQ(backing(), ErrorCode::kOk);
  ASSERT_TRUE(view().ok());
}

// A process that has the file open asks again for each of its opens.
TEST_F(RetractedChunkTest, AnOpenFileIsNoBackingAnyMore) {
  const auto opened = source->openFile(entry);
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE((*opened)->backing().ok());
  spoil();
  EXPECT_EQ((*opened)->backing().code(), ErrorCode::kNotFound);
  EXPECT_EQ((*opened)->tryRead(kChunkBytes, 4096).code(), ErrorCode::kNotFound);
}

// The log has the retraction, as the bytes are still bad.
TEST_F(RetractedChunkTest, TheNextAgentKnowsToo) {
  ASSERT_TRUE(view().ok());
  spoil();
  restart();
  expectWithheld("after a start");
  EXPECT_EQ(agent.engine().commons().cache->residentBytes(key), kRetractedSize - kChunkBytes);
  EXPECT_TRUE(read() == good);
  ASSERT_TRUE(eventually([this] { return source->complete(entry); })) << "it is written behind";
  EXPECT_EQ(backing(), ErrorCode::kOk);
  const auto built = view();
  ASSERT_TRUE(built.ok());
  std::ifstream file(*built + "/model", std::ios::binary);
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(file), {}) == good);
}

}  // namespace
}  // namespace hearth::testing_cluster
