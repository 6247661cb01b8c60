#include "sessions/publish_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace hearth {
namespace {

using tree::SessionId;

class PublishLogTest : public ::testing::Test {
 protected:
  PublishLogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~PublishLogTest() override { std::filesystem::remove_all(folder_); }

  static PublishRecord record(std::uint64_t session, std::uint32_t counter) {
    PublishRecord made{.version = {SessionId{session}, counter}, .first = 3, .length = 5u << 20};
    made.chunks = {{1, 2, 3}, {static_cast<std::uint8_t>(counter)}};
    return made;
  }
  std::unique_ptr<PublishLog> open() { return PublishLog::open(path()).value(); }
  std::string path() const { return folder_ / "published"; }

  std::filesystem::path folder_;
};

TEST_F(PublishLogTest, TheNextAgentFindsWhatEachSessionPublishedLast) {
  HashKey key{};
  {
    const auto log = open();
    key = log->key();
    for (const std::uint32_t counter : {1u, 2u}) {
      ASSERT_TRUE(log->add(record(7, counter)).ok());
      ASSERT_TRUE(log->add(record(8, counter)).ok());
    }
  }
  const auto log = open();
  EXPECT_EQ(log->key(), key);
  EXPECT_EQ(log->find({SessionId{7}, 1}), nullptr);
  ASSERT_NE(log->find({SessionId{7}, 2}), nullptr);
  EXPECT_EQ(*log->find({SessionId{7}, 2}), record(7, 2));
  log->drop(SessionId{7});
  EXPECT_EQ(log->find({SessionId{7}, 2}), nullptr);
  EXPECT_NE(log->find({SessionId{8}, 2}), nullptr);
}

TEST_F(PublishLogTest, ARecordThatIsCutOffEndsTheLog) {
  {
    const auto log = open();
    ASSERT_TRUE(log->add(record(7, 1)).ok());
    ASSERT_TRUE(log->add(record(8, 1)).ok());
  }
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  {
    const auto log = open();
    EXPECT_NE(log->find({SessionId{7}, 1}), nullptr);
    EXPECT_EQ(log->find({SessionId{8}, 1}), nullptr);
    ASSERT_TRUE(log->add(record(9, 1)).ok());
  }
  EXPECT_NE(open()->find({SessionId{9}, 1}), nullptr);
  std::ofstream(path()) << "something else";
  EXPECT_EQ(open()->find({SessionId{9}, 1}), nullptr);
}

TEST_F(PublishLogTest, StaysSmallWhileSessionsComeAndGo) {
  const auto log = open();
  for (std::uint64_t session = 1; session < 40'000; ++session) {
    ASSERT_TRUE(log->add(record(session, 1)).ok());
    log->drop(SessionId{session - 1});
  }
  EXPECT_LT(std::filesystem::file_size(path()), 2u << 20);
  EXPECT_NE(open()->find({SessionId{39'999}, 1}), nullptr);
}

}  // namespace
}  // namespace hearth
