// Complete files are read without us, and the change from one way to the other is never an error.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fuse/hearth_ioctl.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::fuse_testing {
namespace {

constexpr std::uint64_t kSize = 2'500'000;

class FusePassthroughTest : public MountTest {
 protected:
  // Serves files f0..f(n-1) and skips the test where the kernel or the temporary folder's file
  // system cannot do passthrough.
  void serveFiles(int count, FuseSessionOptions options = {}) {
    std::vector<ManifestRow> rows;
    for (int i = 0; i < count; ++i) rows.push_back(fileRow("f" + std::to_string(i), kSize));
    rows.push_back(fileRow("probe", 10));
    serve(std::move(rows), std::move(options));
    source_->setComplete("probe", true);
    EXPECT_EQ(readAll(mnt("probe")), contentOf("probe", 10));
    possible_ = session_->passthroughReason().empty();
  }
  OwnedFd openFile(const std::string& path) {
    return OwnedFd(open(mnt(path).c_str(), O_RDONLY | O_CLOEXEC));
  }
  static std::string readFrom(const OwnedFd& file) {
    std::string bytes(kSize + 10, '\0');
    const ssize_t size = pread(file.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return bytes;
  }
  bool possible_ = false;
};

#define SKIP_WITHOUT_PASSTHROUGH() \
  if (!possible_) GTEST_SKIP() << session_->passthroughReason()

TEST_F(FusePassthroughTest, CompleteFilesAreNeverReadThroughUs) {
  serveFiles(1);
  SKIP_WITHOUT_PASSTHROUGH();
  source_->setComplete("f0", true);
  const auto reads = operations(FUSE_READ);
  const auto opens = statistics().passthroughOpens;
  const std::string expected = contentOf("f0", kSize);
  EXPECT_TRUE(readAll(mnt("f0")) == expected);
  const OwnedFd file = openFile("f0");
  void* const mapped = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::memcmp(mapped, expected.data(), kSize), 0);
  munmap(mapped, kSize);
  EXPECT_EQ(operations(FUSE_READ), reads);
  EXPECT_EQ(statistics().passthroughOpens, opens + 2);
}

TEST_F(FusePassthroughTest, AFileThatBecomesCompleteIsOpenedTheOtherWay) {
  FuseSessionOptions options;
  options.incompleteEntryValid = std::chrono::milliseconds(0);
  serveFiles(1, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  const std::string expected = contentOf("f0", kSize);
  const OwnedFd early = openFile("f0");
  EXPECT_TRUE(readFrom(early) == expected);
  struct stat before {};
  ASSERT_EQ(fstat(early.get(), &before), 0);

  source_->setComplete("f0", true);
  const auto reads = operations(FUSE_READ);
  const OwnedFd late = openFile("f0");
  ASSERT_TRUE(late) << strerror(errno);
  EXPECT_TRUE(readFrom(late) == expected);
  EXPECT_EQ(operations(FUSE_READ), reads);
  struct stat after {};
  ASSERT_EQ(fstat(late.get(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  // The first descriptor is as good as before.
  posix_fadvise(early.get(), 0, 0, POSIX_FADV_DONTNEED);
  EXPECT_TRUE(readFrom(early) == expected);
}

// The kernel holds its bytes: evicting it would free nothing before.
TEST_F(FusePassthroughTest, WhatTheKernelReadsIsLetGoWhenItIsClosed) {
  serveFiles(1);
  source_->setComplete("f0", true);
  SKIP_WITHOUT_PASSTHROUGH();
  OwnedFd file = openFile("f0");
  ASSERT_EQ(ioctl(file.get(), HEARTH_IOC_DONTNEED), 0);
  EXPECT_EQ(source_->advices().size(), 0U);
  EXPECT_TRUE(readFrom(file) == contentOf("f0", kSize));
  file.reset();
  EXPECT_TRUE(eventually([&] { return source_->advices().size() == 1; }));
  EXPECT_EQ(source_->advices().front().advice, Advice::kDontNeed);
}

TEST_F(FusePassthroughTest, WhatIsNeededAgainStaysWhenItIsClosed) {
  serveFiles(2);
  source_->setComplete("f0", true);
  source_->setComplete("f1", true);
  SKIP_WITHOUT_PASSTHROUGH();
  OwnedFd file = openFile("f0");
  OwnedFd other = openFile("f1");
  ASSERT_EQ(ioctl(file.get(), HEARTH_IOC_DONTNEED), 0);
  ASSERT_EQ(ioctl(file.get(), HEARTH_IOC_WILLNEED), 0);
  ASSERT_EQ(ioctl(other.get(), HEARTH_IOC_DONTNEED), 0);
  file.reset();
  other.reset();
  EXPECT_TRUE(eventually([&] { return source_->advices().size() == 2; }));
  EXPECT_EQ(source_->advices().front().advice, Advice::kWillNeed);
  EXPECT_EQ(source_->advices().back().advice, Advice::kDontNeed);
}

TEST_F(FusePassthroughTest, TheKernelLooksUpAgainAfterAWhile) {
  FuseSessionOptions options;
  options.incompleteEntryValid = std::chrono::milliseconds(300);
  serveFiles(1, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  const OwnedFd early = openFile("f0");
  source_->setComplete("f0", true);
  const auto opens = statistics().passthroughOpens;
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(openFile("f0")) << strerror(errno);
    return statistics().passthroughOpens > opens;
  }));
}

TEST_F(FusePassthroughTest, ANodeThatIsNotOpenChangesByItself) {
  FuseSessionOptions options;
  options.incompleteEntryValid = std::chrono::hours(1);
  serveFiles(1, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  // By a descriptor, whose opens look nothing up: where a single file is bind-mounted, or in /proc.
  const OwnedFd path(open(mnt("f0").c_str(), O_PATH | O_CLOEXEC));
  const std::string link = "/proc/self/fd/" + std::to_string(path.get());
  EXPECT_TRUE(readAll(link) == contentOf("f0", kSize));
  source_->setComplete("f0", true);
  const auto opens = statistics().passthroughOpens;
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(readAll(link) == contentOf("f0", kSize));
    return statistics().passthroughOpens > opens;
  }));
}

TEST_F(FusePassthroughTest, AFileThatIsEvictedBeforeItsOpenIsReadThroughUs) {
  serveFiles(1);
  SKIP_WITHOUT_PASSTHROUGH();
  source_->setComplete("f0", true);
  source_->evictBeforeOpen(true);
  const OwnedFd first = openFile("f0");
  ASSERT_TRUE(first) << strerror(errno);
  source_->setComplete("f0", false);
  EXPECT_TRUE(readFrom(first) == contentOf("f0", kSize));
  // Complete again, while the node is open through the page cache.
  source_->setComplete("f0", true);
  source_->evictBeforeOpen(false);
  const OwnedFd second = openFile("f0");
  ASSERT_TRUE(second) << strerror(errno);
  EXPECT_TRUE(readFrom(second) == contentOf("f0", kSize));
}

TEST_F(FusePassthroughTest, OpeningWhileFilesComeAndGoNeverFails) {
  constexpr int kFiles = 6;
  constexpr int kThreads = 6;
  FuseSessionOptions options;
  options.threads = 3;
  options.incompleteEntryValid = std::chrono::milliseconds(1);
  serveFiles(kFiles, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  std::vector<std::string> expected;
  for (int i = 0; i < kFiles; ++i) expected.push_back(contentOf("f" + std::to_string(i), kSize));
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> lastError{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<OwnedFd> kept(4);
      char bytes[4096];
      while (!stop) {
        const std::size_t f = random() % kFiles;
        OwnedFd file = openFile("f" + std::to_string(f));
        const std::uint64_t offset = random() % (kSize - sizeof bytes);
        if (!file ||
            pread(file.get(), bytes, sizeof bytes, static_cast<off_t>(offset)) != sizeof bytes ||
            std::memcmp(bytes, expected[f].data() + offset, sizeof bytes) != 0) {
          lastError = errno;
          ++failures;
        }
        // Some stay open for a while, so that every mixture of open ways occurs.
        kept[random() % kept.size()] = std::move(file);
      }
    });
  }
  std::mt19937 random(99);
  const auto begin = Clock::now();
  const auto continues = [&] {
    const auto passed = Clock::now() - begin;
    if (passed < std::chrono::milliseconds(2500)) return true;
    // On a busy machine both ways take longer to be taken often enough.
    const FuseStatistics now = statistics();
    const bool enough = now.passthroughOpens > 100U && now.daemonOpens > 100U;
    return !enough && passed < kHang;
  };
  while (continues()) {
    source_->setComplete("f" + std::to_string(random() % kFiles), random() % 3 != 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0) << strerror(lastError);
  EXPECT_GT(statistics().passthroughOpens, 100U);
  EXPECT_GT(statistics().daemonOpens, 100U);
}

TEST_F(FusePassthroughTest, FilesAreInUseUntilTheLastRelease) {
  serveFiles(2);
  SKIP_WITHOUT_PASSTHROUGH();
  source_->setComplete("f0", true);
  ASSERT_TRUE(eventually([&] { return source_->openObjects() == 0; }));
  {
    const OwnedFd one = openFile("f0");
    const OwnedFd two = openFile("f0");
    const OwnedFd other = openFile("f1");
    EXPECT_EQ(source_->openObjects(), 2);
  }
  EXPECT_TRUE(eventually([&] { return source_->openObjects() == 0; }));
}

TEST_F(FusePassthroughTest, CanBeTurnedOff) {
  FuseSessionOptions options;
  options.passthrough = false;
  serveFiles(1, std::move(options));
  source_->setComplete("f0", true);
  EXPECT_TRUE(readAll(mnt("f0")) == contentOf("f0", kSize));
  EXPECT_EQ(statistics().passthroughOpens, 0U);
  EXPECT_NE(session_->passthroughReason(), "");
}

}  // namespace
}  // namespace hearth::fuse_testing
