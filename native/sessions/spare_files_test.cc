#include "sessions/spare_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

namespace hearth {
namespace {

class SpareFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-spares-XXXXXX").string();
    root_ = mkdtemp(name.data());
    folder_ = volumeFolder(root_, "02");
    ASSERT_TRUE(makeVolumeFolder(folder_).ok());
    auto reactor = Reactor::create();
    ASSERT_TRUE(reactor.ok());
    reactor_ = std::move(*reactor);
    spares_ = std::make_unique<SpareFiles>(*reactor_, folder_);
  }
  void TearDown() override {
    close();
    umount2(root_.c_str(), MNT_DETACH);
    std::filesystem::remove_all(root_);
  }
  void close() {
    if (spares_ != nullptr) reactor_->runUntilComplete(spares_->close());
    spares_.reset();
  }

  [[nodiscard]] std::string path(int number) const {
    return folder_ + "/" + textOf(SessionName{.inode = tree::InodeId(number), .session = {}});
  }
  Result<OwnedFd> take(int number) {
    return reactor_->runUntilComplete(spares_->take(path(number)));
  }
  // Runs the reactor until there are so many spare files.
  void expectSpares(std::size_t count) {
    struct Wait {
      static Task<void> run(Reactor& reactor, const SpareFiles& spares, std::size_t count) {
        while (spares.count() != count) co_await reactor.sleep(std::chrono::milliseconds(1));
      }
    };
    reactor_->runUntilComplete(Wait::run(*reactor_, *spares_, count));
  }
  // Names in the folder that begin so.
  [[nodiscard]] std::set<std::string> names(const std::string& beginning) const {
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      const std::string name = each.path().filename();
      if (name.starts_with(beginning)) found.insert(name);
    }
    return found;
  }

  std::string root_, folder_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<SpareFiles> spares_;
};

ino_t inodeOf(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_ino;
}

TEST_F(SpareFilesTest, ASessionGetsOneThatWasMadeBefore) {
  EXPECT_TRUE(names(".tmp-").empty());
  ASSERT_TRUE(take(1).ok());
  expectSpares(SpareFiles::kMaxSpares);
  std::set<ino_t> made;
  for (const std::string& name : names(".tmp-")) {
    made.insert(inodeOf(folder_ + "/" + name));
    // As if it lay there for long.
    ASSERT_TRUE(setTimes(folder_ + "/" + name, 0, 0).ok());
  }
  ASSERT_EQ(made.size(), SpareFiles::kMaxSpares);
  const Result<OwnedFd> file = take(2);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(made.contains(inodeOf(path(2))));
  EXPECT_EQ(::fcntl(file->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_TRUE(noWriterLeft(file->get()).ok());
  EXPECT_EQ(markOf(file->get())->size, 0u);
  EXPECT_GE(markOf(file->get())->modifiedNs, markOf(file->get())->changedNs - 1'000'000'000);
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 2u);
}

TEST_F(SpareFilesTest, AreMadeAgainWhenHalfOfThemAreGone) {
  ASSERT_TRUE(take(0).ok());
  for (int round = 0; round < 3; ++round) {
    expectSpares(SpareFiles::kMaxSpares);
    const auto before = names(".tmp-");
    for (std::size_t i = 0; i < SpareFiles::kMaxSpares / 2; ++i)
      ASSERT_TRUE(take(100 * round + static_cast<int>(i) + 1).ok());
    expectSpares(SpareFiles::kMaxSpares);
    EXPECT_EQ(names(".tmp-").size(), SpareFiles::kMaxSpares);
    EXPECT_NE(names(".tmp-"), before);
  }
}

TEST_F(SpareFilesTest, GoWhenTheyAreClosed) {
  ASSERT_TRUE(take(1).ok());
  // Also those that are being made.
  close();
  EXPECT_TRUE(names(".tmp-").empty());
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 1u);
}

TEST_F(SpareFilesTest, AKilledAgentLeavesNoneToTheNext) {
  const auto killed = [this] {
    // Threads do not survive a fork.
    auto reactor = Reactor::create();
    reactor_ = std::move(*reactor);
    spares_ = std::make_unique<SpareFiles>(*reactor_, folder_);
    for (int number : {1, 2}) {
      if (!take(number).ok()) return;
      expectSpares(SpareFiles::kMaxSpares - (number - 1));
    }
    ::raise(SIGKILL);
  };
  EXPECT_EXIT(killed(), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 2u);
  EXPECT_EQ(names(".tmp-").size(), SpareFiles::kMaxSpares - 1);
  removeAside(folder_);
  EXPECT_TRUE(names(".tmp-").empty());
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 2u);
}

TEST_F(SpareFilesTest, AFullDiskFailsOnlySessionsThatFindNone) {
  if (::mount("tmpfs", root_.c_str(), "tmpfs", 0, "nr_inodes=9") != 0)
    GTEST_SKIP() << "needs the right to mount";
  // Four inodes are the folders'.
  ASSERT_TRUE(makeVolumeFolder(folder_).ok());
  ASSERT_TRUE(take(1).ok());
  expectSpares(4);
  for (int number = 2; number <= 5; ++number) ASSERT_TRUE(take(number).ok()) << number;
  EXPECT_EQ(take(6).code(), ErrorCode::kOutOfSpace);
  std::filesystem::remove(path(1));
  EXPECT_TRUE(take(6).ok());
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 5u);
}

TEST_F(SpareFilesTest, OnesThatWereRemovedAreNotMissed) {
  ASSERT_TRUE(take(1).ok());
  expectSpares(SpareFiles::kMaxSpares);
  removeAside(folder_);
  EXPECT_TRUE(take(2).ok());
  EXPECT_EQ(findFiles(folder_)->sessions.size(), 2u);
}

}  // namespace
}  // namespace hearth
