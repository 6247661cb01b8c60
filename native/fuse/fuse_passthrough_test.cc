// Complete files are read without us, and the change from one way to the other is never an error.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/testing/pod_attack.h"
#include "fuse/hearth_ioctl.h"
#include "fuse/testing/mount_fixture.h"
#include "memory/page_cache.h"

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
  std::string dataPath(const std::string& path) {
    char value[40];
    const ssize_t size = getxattr(mnt(path).c_str(), "user.hearth.datapath", value, sizeof value);
    return {value, size < 0 ? 0 : static_cast<std::size_t>(size)};
  }
  // `readers` threads open and read random ones of the first `files` files, each keeping up to
  // `kept` open, while they become complete and incomplete. Nothing may fail.
  void openWhileFilesComeAndGo(unsigned files, unsigned readers, std::size_t kept);
  bool possible_ = false;
};

void FusePassthroughTest::openWhileFilesComeAndGo(unsigned files, unsigned readers,
                                                  std::size_t kept) {
  std::vector<std::string> expected;
  for (unsigned i = 0; i < files; ++i)
    expected.push_back(contentOf("f" + std::to_string(i), kSize));
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> lastError{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < readers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<OwnedFd> open;
      char bytes[4096];
      while (!stop) {
        const std::size_t f = random() % files;
        OwnedFd file = openFile("f" + std::to_string(f));
        const std::uint64_t offset = random() % (kSize - sizeof bytes);
        if (!file ||
            pread(file.get(), bytes, sizeof bytes, static_cast<off_t>(offset)) != sizeof bytes ||
            std::memcmp(bytes, expected[f].data() + offset, sizeof bytes) != 0) {
          lastError = errno;
          ++failures;
        }
        open.push_back(std::move(file));
        if (open.size() > kept) open.clear();
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
    source_->setComplete("f" + std::to_string(random() % files), random() % 3 != 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0) << strerror(lastError);
  EXPECT_GT(statistics().passthroughOpens, 100U);
  EXPECT_GT(statistics().daemonOpens, 100U);
}

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

TEST_F(FusePassthroughTest, LoadersLearnThatTheKernelHasThePages) {
  serveFiles(1);
  if (!possible_) GTEST_SKIP() << session_->passthroughReason();
  source_->setComplete("f0", true);
  const OwnedFd file = openFile("f0");
  EXPECT_EQ(readFrom(file).size(), kSize);
  EXPECT_TRUE(arePagesCached(file.get(), 0, kSize));
}

TEST_F(FusePassthroughTest, APodCannotChangeWhatTheKernelReads) {
  serveFiles(1);
  SKIP_WITHOUT_PASSTHROUGH();
  source_->setComplete("f0", true);
  const auto opens = statistics().passthroughOpens;
  const OwnedFd file = openFile("f0");
  ASSERT_EQ(statistics().passthroughOpens, opens + 1);
  using pod_attack::Pod;
  for (const Pod pod : {Pod::kWithoutCapabilities, Pod::kWithUserNamespace})
    EXPECT_STREQ(pod_attack::changeMadeBy(pod, file.get()), "");
  EXPECT_TRUE(readFrom(file) == contentOf("f0", kSize));
}

TEST_F(FusePassthroughTest, AFileThatBecomesCompleteIsOpenedTheOtherWayOnceItIsClosed) {
  serveFiles(1);
  SKIP_WITHOUT_PASSTHROUGH();
  const std::string expected = contentOf("f0", kSize);
  OwnedFd early = openFile("f0");
  EXPECT_TRUE(readFrom(early) == expected);

  source_->setComplete("f0", true);
  const auto opens = statistics().passthroughOpens;
  OwnedFd late = openFile("f0");
  ASSERT_TRUE(late) << strerror(errno);
  EXPECT_TRUE(readFrom(late) == expected);
  EXPECT_EQ(statistics().passthroughOpens, opens);
  EXPECT_EQ(dataPath("f0"), "daemon");

  early.reset();
  late.reset();
  EXPECT_TRUE(eventually([&] { return dataPath("f0") == "passthrough"; }));
  const auto reads = operations(FUSE_READ);
  EXPECT_TRUE(readAll(mnt("f0")) == expected);
  EXPECT_EQ(operations(FUSE_READ), reads);
  EXPECT_EQ(statistics().passthroughOpens, opens + 1);
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

TEST_F(FusePassthroughTest, ANodeThatIsNotOpenChangesByItself) {
  serveFiles(1);
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
  FuseSessionOptions options;
  options.threads = 3;
  serveFiles(6, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  openWhileFilesComeAndGo(6, 6, 2);
}

// The first open after a last close, which the kernel reports later, comes all the time.
TEST_F(FusePassthroughTest, OneFileIsOpenedEitherWayByManyAtOnce) {
  FuseSessionOptions options;
  options.threads = 3;
  serveFiles(1, std::move(options));
  SKIP_WITHOUT_PASSTHROUGH();
  openWhileFilesComeAndGo(1, 3, 0);
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
