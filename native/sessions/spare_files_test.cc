#include "sessions/spare_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <fstream>

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
  std::string root_, folder_;
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<SpareFiles> spares_;
};

ino_t inodeOf(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_ino;
}

ino_t inodeOf(const OwnedFd& file) {
  struct stat about {};
  EXPECT_EQ(::fstat(file.get(), &about), 0);
  return about.st_ino;
}

// The clock of the kernel's file times.
std::int64_t fileTimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

TEST_F(SpareFilesTest, ASessionGetsOneThatWasMadeBefore) {
  ASSERT_TRUE(take(1).ok());
  expectSpares(SpareFiles::kMaxSpares);
  const std::int64_t madeBefore = fileTimeNs();
  while (fileTimeNs() == madeBefore) continue;
  const Result<OwnedFd> file = take(2);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(spares_->count(), SpareFiles::kMaxSpares - 1);
  EXPECT_EQ(inodeOf(path(2)), inodeOf(*file));
  EXPECT_EQ(::fcntl(file->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_TRUE(noWriterLeft(file->get()).ok());
  EXPECT_EQ(markOf(file->get())->size, 0u);
  EXPECT_GT(markOf(file->get())->modifiedNs, madeBefore);
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

TEST_F(SpareFilesTest, AreMadeAgainWhenHalfOfThemAreGone) {
  ASSERT_TRUE(take(0).ok());
  for (int round = 0; round < 3; ++round) {
    expectSpares(SpareFiles::kMaxSpares);
    for (std::size_t i = 0; i < SpareFiles::kMaxSpares / 2; ++i)
      ASSERT_TRUE(take(100 * round + static_cast<int>(i) + 1).ok());
  }
  expectSpares(SpareFiles::kMaxSpares);
}

TEST_F(SpareFilesTest, ASpareFileThatIsReadyIsNamedAfterItsInode) {
  EXPECT_FALSE(spares_->takeReady());
  expectSpares(SpareFiles::kMaxSpares);
  const std::optional<SpareFile> spare = spares_->takeReady();
  ASSERT_TRUE(spare);
  struct stat about {};
  ASSERT_EQ(::fstat(spare->file.get(), &about), 0);
  EXPECT_EQ(findSpareFile(folder_, about.st_dev, about.st_ino), spare->path);
  EXPECT_EQ(findSpareFile(folder_, about.st_dev + 1, about.st_ino), "");
  close();
  EXPECT_EQ(spareFilesIn(folder_), std::vector<std::string>{spare->path});
}

TEST_F(SpareFilesTest, ANameThatIsTakenIsEmptied) {
  ASSERT_TRUE(take(1).ok());
  expectSpares(SpareFiles::kMaxSpares);
  std::ofstream(path(1)) << "left by an agent";
  const Result<OwnedFd> file = take(1);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(markOf(file->get())->size, 0u);
}

}  // namespace
}  // namespace hearth
