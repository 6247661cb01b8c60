#include "engine/unowned_mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/view_mount.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

class UnownedMountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "mounts need root";
    char name[] = "/tmp/hearth-unowned-XXXXXX";
    folder_ = mkdtemp(name);
    for (const char* part : {"view/sub", "target", "container"})
      fs::create_directories(folder_ / part);
    std::ofstream(folder_ / "view/file") << "bytes";
    fs::copy_file("/bin/true", folder_ / "view/program");
    chmod((folder_ / "view/file").c_str(), 0444);
    chmod((folder_ / "view/program").c_str(), 0555);
  }

  void TearDown() override {
    if (folder_.empty()) return;
    for (const char* part : {"container", "target"}) umount2((folder_ / part).c_str(), MNT_DETACH);
    fs::remove_all(folder_);
  }

  std::string path(const char* part) const { return folder_ / part; }

  static void expectUnwritable(const std::string& below) {
    EXPECT_LT(open((below + "/new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), 0);
    EXPECT_LT(open((below + "/file").c_str(), O_WRONLY | O_CLOEXEC), 0);
    EXPECT_LT(open((below + "/file").c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), 0);
    EXPECT_NE(truncate((below + "/file").c_str(), 0), 0);
    EXPECT_NE(unlink((below + "/file").c_str()), 0);
    EXPECT_NE(rename((below + "/file").c_str(), (below + "/sub/file").c_str()), 0);
    EXPECT_NE(link((below + "/file").c_str(), (below + "/link").c_str()), 0);
    EXPECT_NE(mkdir((below + "/folder").c_str(), 0777), 0);
    EXPECT_NE(rmdir((below + "/sub").c_str()), 0);
    EXPECT_NE(chmod((below + "/file").c_str(), 0777), 0);
    EXPECT_NE(chown((below + "/file").c_str(), 1, 1), 0);
    EXPECT_NE(utimensat(AT_FDCWD, (below + "/file").c_str(), nullptr, 0), 0);
  }

  static std::string content(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
};

TEST_F(UnownedMountTest, CannotBeWrittenByACopyWhoseFlagIsTakenOff) {
  const Status bound = bindUnowned(path("view"), path("target"));
  if (!bound.ok() && bound.error().code == ErrorCode::kUnsupported)
    GTEST_SKIP() << bound.error().message;
  ASSERT_TRUE(bound.ok()) << bound.error().message;
  expectUnwritable(path("target"));
  ASSERT_EQ(mount(path("target").c_str(), path("container").c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(mount(nullptr, path("container").c_str(), nullptr, MS_BIND | MS_REMOUNT, nullptr), 0);
  expectUnwritable(path("container"));
  EXPECT_EQ(content(path("container/file")), "bytes");
  EXPECT_EQ(std::system((path("container/program")).c_str()), 0);
  EXPECT_EQ(content(path("view/file")), "bytes");
}

TEST_F(UnownedMountTest, IsHowAViewIsBound) {
  ChildCalls calls;
  ASSERT_TRUE(bindView(calls, path("view"), path("target")).ok());
  ASSERT_TRUE(bindView(calls, path("view"), path("target")).ok()) << "the same again";
  EXPECT_EQ(content(path("target/file")), "bytes");
  EXPECT_LT(open((path("target") + "/new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), 0);
  ASSERT_TRUE(unbindView(calls, path("target")).ok());
  EXPECT_EQ(unbindView(calls, path("target")).error().code, ErrorCode::kNotFound);
}

TEST_F(UnownedMountTest, FailsForWhatIsNotThere) {
  EXPECT_FALSE(bindUnowned(path("absent"), path("target")).ok());
  EXPECT_FALSE(bindUnowned(path("view"), path("absent")).ok());
}

}  // namespace
}  // namespace hearth
