#include "files/open_below.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

namespace hearth {
namespace {

namespace fs = std::filesystem;

class OpenBelowTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "below-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    for (const char* part : {"root/sub", "outside"}) fs::create_directories(folder_ / part);
    std::ofstream(folder_ / "root/sub/file") << "inside";
    std::ofstream(folder_ / "outside/file") << "secret";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // The bytes of the file, or the error's name in brackets.
  [[nodiscard]] std::string read(const std::string& path) const {
    const Result<int> opened = openRegularBelow((folder_ / "root").string(), path);
    if (!opened.ok()) return "[" + std::string(errorName(opened.code())) + "]";
    char bytes[16];
    const ssize_t count = ::read(*opened, bytes, sizeof bytes);
    close(*opened);
    return {bytes, static_cast<std::size_t>(count)};
  }
  void link(const std::string& target, const char* name) const {
    fs::create_symlink(target, folder_ / "root" / name);
  }
  fs::path folder_;
};

TEST_F(OpenBelowTest, OpensWhatIsThere) {
  EXPECT_EQ(read("sub/file"), "inside");
  EXPECT_EQ(read("sub/../sub/file"), "inside");
  EXPECT_EQ(read("sub/none"), "[NotFound]");
  EXPECT_EQ(read("none/file"), "[NotFound]");
  EXPECT_EQ(openRegularBelow((folder_ / "none").string(), "file").code(), ErrorCode::kNotFound);
}

TEST_F(OpenBelowTest, FollowsNoLinkAndNothingThatLeadsOut) {
  link((folder_ / "outside").string(), "absolute");
  link("../outside", "relative");
  link("sub", "harmless");
  link("sub/file", "last");
  for (const char* path : {"absolute/file", "relative/file", "harmless/file", "last",
                           "../outside/file", "sub/../../outside/file"}) {
    EXPECT_EQ(read(path), "[Unsupported]") << path;
  }
  EXPECT_EQ(read((folder_ / "outside/file").string()), "[Unsupported]");
  EXPECT_EQ(read("/proc/self/exe"), "[Unsupported]");
}

TEST_F(OpenBelowTest, OpensNothingButRegularFiles) {
  ASSERT_EQ(mkfifo((folder_ / "root/pipe").c_str(), 0600), 0);
  EXPECT_EQ(read("pipe"), "[Unsupported]") << "and does not wait for who writes";
  EXPECT_EQ(read("sub"), "[Unsupported]");
}

// A thread swaps a folder for a link to another place and back, as fast as it can.
TEST_F(OpenBelowTest, IsNotLedOutByALinkThatIsSwappedIn) {
  const fs::path root = folder_ / "root";
  fs::create_symlink(folder_ / "outside", root / "link");
  std::atomic<bool> ends{false};
  std::thread swapper([&] {
    while (!ends) {
      ASSERT_EQ(renameat2(AT_FDCWD, (root / "sub").c_str(), AT_FDCWD, (root / "link").c_str(),
                          RENAME_EXCHANGE),
                0);
    }
  });
  int inside = 0;
  int refused = 0;
  for (int i = 0; i < 20'000 && (i < 2'000 || inside == 0 || refused == 0); ++i) {
    const std::string text = read("sub/file");
    ASSERT_TRUE(text == "inside" || text.starts_with("[")) << text;
    ++(text == "inside" ? inside : refused);
  }
  ends = true;
  swapper.join();
  EXPECT_GT(inside, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace hearth
