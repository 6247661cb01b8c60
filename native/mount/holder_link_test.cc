// Folders of files in memory that outlive holders, and then the agent.
#include "mount/holder_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "base/testing/eventually.h"
#include "holder/holder_server.h"

namespace hearth {
namespace {

class FolderLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to make a tmpfs";
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    startHolder();
  }
  void TearDown() override {
    endHolder();
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }
  void startHolder() {
    auto server = HolderServer::create({.socketPath = socket()});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->run(); });
  }
  void endHolder() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  std::string socket() const { return (root_ / "s").string(); }
  HolderLink::Options options() const {
    return {.owner = "a", .socket = socket(), .log = [](bool, const std::string&) {}};
  }

  std::filesystem::path root_;
  std::unique_ptr<HolderServer> server_;
  std::thread thread_;
};

TEST_F(FolderLinkTest, HasItsFilesAfterTwoHoldersAndAnAgent) {
  {
    HolderLink link(options());
    ASSERT_TRUE(link.connect().ok());
    auto folder = link.client()->openFolder("files", 1 << 20);
    ASSERT_TRUE(folder.ok()) << folder.error().message;
    ASSERT_TRUE(link.keep(folder->record, folder->descriptor).ok());
    ASSERT_EQ(mkdirat(folder->descriptor.get(), "made", 0700), 0);
    folder->descriptor.reset();
    for (int round = 0; round < 2; ++round) {
      endHolder();
      startHolder();
      ASSERT_TRUE(eventually([&] { return link.client() != nullptr; }));
      const Status keeps = link.keeps("files");
      EXPECT_TRUE(keeps.ok()) << keeps.error().message;
    }
    // The agent may resize it between two holders.
    ASSERT_TRUE(link.client()->openFolder("files", 2 << 20).ok());
    endHolder();
    startHolder();
    ASSERT_TRUE(eventually([&] { return link.client() != nullptr; }));
    EXPECT_TRUE(link.keeps("files").ok());
  }
  HolderLink next(options());
  ASSERT_TRUE(eventually([&] { return next.connect().ok(); }));
  const auto folder = next.client()->openFolder("files", 2 << 20);
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_TRUE(folder->record.folder);
  EXPECT_EQ(folder->record.bytes, std::uint64_t{2} << 20);
  struct stat about {};
  EXPECT_EQ(fstatat(folder->descriptor.get(), "made", &about, 0), 0);
}

}  // namespace
}  // namespace hearth
