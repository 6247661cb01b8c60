#include "files/crash_file_system.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <set>

#include "reactor/reactor.h"

namespace hearth {
namespace {

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

class CrashFileSystemTest : public testing::Test {
 protected:
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::unique_ptr<File> make(const std::string& path) {
    auto opened = run(files.open(path, {.write = true, .create = true}));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }
  std::string contents(CrashFileSystem& of, const std::string& path) {
    const auto opened = run(of.open(path, {}));
    if (!opened.ok()) return "(none)";
    std::string text(20000, '\0');
    const auto count = run((*opened)->readAt(std::as_writable_bytes(std::span(text)), 0));
    text.resize(*count);
    return text;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
};

TEST_F(CrashFileSystemTest, UnsyncedPagesAndSizesSurviveInEveryCombination) {
  const auto file = make("/a");
  ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  ASSERT_TRUE(run(file->writeAt(bytesOf(std::string(8192, 'o')), 0)).ok());
  ASSERT_TRUE(run(file->syncData()).ok());
  ASSERT_TRUE(run(file->writeAt(bytesOf(std::string(12288, 'n')), 0)).ok());
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto copy = files.crashCopy(seed);
    const std::string text = contents(*copy, "/a");
    std::string shape = std::to_string(text.size());
    for (std::size_t page = 0; page < text.size(); page += 4096) {
      shape += text[page] == '\0' ? 'z' : text[page];
      EXPECT_EQ(text.substr(page, 4096), std::string(4096, text[page]));
    }
    seen.insert(shape);
  }
  // 4 combinations of the first two pages, by: size kept, grown without and with the third page.
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_EQ(contents(*files.killCopy(), "/a"), std::string(12288, 'n'));
}

TEST_F(CrashFileSystemTest, SyncedDataSurvivesButItsNameNeedsTheDirectory) {
  const auto file = make("/a");
  ASSERT_TRUE(run(file->writeAt(bytesOf("x"), 0)).ok());
  ASSERT_TRUE(run(file->syncData()).ok());
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    seen.insert(contents(*files.crashCopy(seed), "/a"));
  EXPECT_EQ(seen, (std::set<std::string>{"(none)", "x"}));
  ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(contents(*files.crashCopy(seed), "/a"), "x");
}

TEST_F(CrashFileSystemTest, DirectoryOperationsSurviveAsAPrefixAndRenamesWhole) {
  const auto old = make("/a");
  ASSERT_TRUE(run(old->writeAt(bytesOf("old"), 0)).ok());
  ASSERT_TRUE(run(old->syncData()).ok());
  ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  const auto fresh = make("/a.tmp");
  ASSERT_TRUE(run(fresh->writeAt(bytesOf("new"), 0)).ok());
  ASSERT_TRUE(run(fresh->syncData()).ok());
  ASSERT_TRUE(run(files.rename("/a.tmp", "/a")).ok());
  make("/b");
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto copy = files.crashCopy(seed);
    seen.insert(contents(*copy, "/a") + "," + contents(*copy, "/a.tmp") + "," +
                contents(*copy, "/b"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"old,(none),(none)", "old,new,(none)", "new,(none),(none)",
                                         "new,(none),"}));
}

TEST_F(CrashFileSystemTest, FailsEverythingAfterTheCrash) {
  const auto file = make("/a");
  files.crashAfter(1);
  EXPECT_TRUE(run(file->writeAt(bytesOf("1"), 0)).ok());
  EXPECT_FALSE(files.crashed());
  EXPECT_EQ(run(file->syncData()).code(), ErrorCode::kIoError);
  EXPECT_TRUE(files.crashed());
  EXPECT_EQ(run(files.info("/a")).code(), ErrorCode::kIoError);
}

TEST_F(CrashFileSystemTest, InjectsErrorsIntoTheNthCall) {
  const auto file = make("/a");
  files.inject(FileCall::kWrite, 2, ENOSPC);
  EXPECT_TRUE(run(file->writeAt(bytesOf("1"), 0)).ok());
  EXPECT_EQ(run(file->writeAt(bytesOf("2"), 0)).code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(run(file->writeAt(bytesOf("3"), 0)).ok());
  EXPECT_EQ(contents(files, "/a"), "3");
}

TEST_F(CrashFileSystemTest, KeepsHardLinksLocksAndMappings) {
  auto file = make("/a");
  ASSERT_TRUE(run(files.link("/a", "/b")).ok());
  EXPECT_EQ(run(files.info("/b"))->links, 2u);
  ASSERT_TRUE(run(file->truncate(5000)).ok());
  const std::byte* const mapped = *file->map(5000);
  ASSERT_TRUE(run(file->writeAt(bytesOf("m"), 4999)).ok());
  EXPECT_EQ(mapped[4999], std::byte{'m'});
  const auto copy = files.killCopy();
  EXPECT_EQ(run(copy->info("/a"))->inode, run(copy->info("/b"))->inode);
  const auto second = make("/a");
  ASSERT_TRUE(run(file->lock()).ok());
  EXPECT_EQ(run(second->lock()).code(), ErrorCode::kInUse);
  file.reset();
  EXPECT_TRUE(run(second->lock()).ok());
  files.corrupt("/b", 4999);
  EXPECT_NE(contents(files, "/a")[4999], 'm');
}

}  // namespace
}  // namespace hearth
