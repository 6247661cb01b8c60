// Reads that wait for bytes: others go on, signals end them, sessions end with them.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "fuse/testing/mount_fixture.h"
#include "holder/fuse_mount.h"

namespace hearth::fuse_testing {
namespace {

class FuseWaitTest : public MountTest {
 protected:
  OwnedFd openFile(const std::string& path) {
    return OwnedFd(open(mnt(path).c_str(), O_RDONLY | O_CLOEXEC));
  }
  // A process that waits in a read of a path's first byte. It says how the read ended before it
  // closes the file, which needs a server again.
  struct Reader {
    pid_t pid = 0;
    OwnedFd outcome;
  };
  Reader startReader(const std::string& path, int flags = 0) {
    const std::string full = mnt(path);
    int channel[2];
    if (pipe2(channel, O_CLOEXEC) != 0) std::abort();
    Reader reader{fork(), OwnedFd(channel[0])};
    if (reader.pid == 0) {
      // Only system calls here: other threads' locks were forked as they were. Without the copies
      // of /dev/fuse, which would keep the connection alive.
      dup2(channel[1], 0);
      close_range(1, ~0U, 0);
      struct sigaction action {};
      action.sa_handler = [](int) {};
      sigaction(SIGUSR1, &action, nullptr);
      const int fd = open(full.c_str(), O_RDONLY | O_CLOEXEC | flags);
      alignas(4096) static char page[4096];
      const ssize_t got = pread(fd, page, sizeof page, 0);
      const char result = got > 0 ? 0 : static_cast<char>(errno);
      _exit(write(0, &result, 1) == 1 ? 0 : 1);
    }
    close(channel[1]);
    readers_.push_back(reader.pid);
    return reader;
  }
  // 0 or the errno of the reader's read; -1 when it does not end within kHang.
  static int outcome(const Reader& reader) {
    pollfd waiting{reader.outcome.get(), POLLIN, 0};
    constexpr int kLimit = std::chrono::milliseconds(kHang).count();
    char result = 0;
    if (poll(&waiting, 1, kLimit) != 1 || read(reader.outcome.get(), &result, 1) != 1) return -1;
    return result;
  }
  void TearDown() override {
    MountTest::TearDown();  // aborts the connection, which ends whoever still waits
    for (const pid_t pid : readers_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  std::vector<pid_t> readers_;
};

TEST_F(FuseWaitTest, OneThatWaitsHoldsUpNoOther) {
  serve({fileRow("slow", 1 << 20), fileRow("fast", 1 << 20)});
  source_->setNever(true);
  source_->setComplete("fast", true);
  const Reader reader = startReader("slow");
  ASSERT_TRUE(eventually([&] { return source_->waiting() != 0; }));
  const auto begin = Clock::now();
  EXPECT_TRUE(readAll(mnt("fast")) == contentOf("fast", 1 << 20));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
  source_->answerAll();
  EXPECT_TRUE(eventually([&] {
    source_->answerAll();
    return source_->waiting() == 0;
  }));
  EXPECT_EQ(outcome(reader), 0);
}

TEST_F(FuseWaitTest, AKillEndsAReaderThatWaits) {
  serve({fileRow("slow", 1 << 20)});
  source_->setNever(true);
  const Reader reader = startReader("slow");
  ASSERT_TRUE(eventually([&] { return source_->waiting() != 0; }));
  kill(reader.pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return waitpid(reader.pid, nullptr, WNOHANG) == reader.pid; }));
}

TEST_F(FuseWaitTest, AnInterruptIsAnswered) {
  serve({fileRow("slow", 1 << 20)});
  source_->setNever(true);
  // O_DIRECT: the reader waits for its own request, not for the page cache.
  const Reader reader = startReader("slow", O_DIRECT);
  ASSERT_TRUE(eventually([&] { return source_->waiting() != 0; }));
  kill(reader.pid, SIGUSR1);
  EXPECT_EQ(outcome(reader), EINTR);
  EXPECT_EQ(statistics().interruptedReads, 1U);
  source_->answerAll();  // too late, and harmless
}

TEST_F(FuseWaitTest, ASessionThatEndsGivesWaitingReadsTheirTime) {
  serve({fileRow("slow", 4096)});
  source_->setDelay(std::chrono::milliseconds(300));
  const Reader reader = startReader("slow");
  ASSERT_TRUE(eventually([&] { return statistics().parkedReads != 0; }));
  session_->close(kHang, false);
  EXPECT_EQ(outcome(reader), 0);
}

TEST_F(FuseWaitTest, ASessionThatEndsForGoodFailsTheRest) {
  serve({fileRow("slow", 4096)});
  source_->setNever(true);
  const Reader reader = startReader("slow");
  ASSERT_TRUE(eventually([&] { return statistics().parkedReads != 0; }));
  session_->close(std::chrono::milliseconds(10), false);
  // The page cache asks once more for the page; nothing is there but the end of the holder.
  session_.reset();
  client_.reset();
  server_->stop();
  holder_.join();
  server_.reset();
  EXPECT_GT(outcome(reader), 0);
}

TEST_F(FuseWaitTest, AKillReachesAReaderByDirectIo) {
  serve({fileRow("slow", 1 << 20)});
  source_->setNever(true);
  const Reader reader = startReader("slow", O_DIRECT);
  ASSERT_TRUE(eventually([&] { return source_->waiting() != 0; }));
  EXPECT_EQ(source_->wanted(), 1U);
  kill(reader.pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return waitpid(reader.pid, nullptr, WNOHANG) == reader.pid; }));
  EXPECT_EQ(source_->wanted(), 0U) << "the source need not wait for the bytes any longer";
}

// The origin hangs, and so many wait for it that the source is asked for no more.
TEST_F(FuseWaitTest, AKillEndsReadersAlsoWhenTooManyWait) {
  FuseSessionOptions options;
  options.maxParkedReads = 2;
  std::vector<ManifestRow> rows;
  for (int i = 0; i < 4; ++i) rows.push_back(fileRow("f" + std::to_string(i), 4096));
  rows.push_back(fileRow("fast", 4096));
  serve(std::move(rows), std::move(options));
  source_->setNever(true);
  source_->setComplete("fast", true);
  std::vector<pid_t> pids;
  for (int i = 0; i < 4; ++i) pids.push_back(startReader("f" + std::to_string(i), O_DIRECT).pid);
  ASSERT_TRUE(eventually([&] { return source_->waiting() == 2; }));
  EXPECT_EQ(outcome(startReader("fast")), 0) << "others are served";
  EXPECT_TRUE(eventually([&] { return operations(FUSE_READ) >= 4; }));
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  for (const pid_t pid : pids) {
    EXPECT_TRUE(eventually([&] { return waitpid(pid, nullptr, WNOHANG) == pid; })) << pid;
  }
  EXPECT_EQ(source_->waiting(), 2U);
}

TEST_F(FuseWaitTest, TooManyWaitersHoldTheSessionBackAndNoneIsLost) {
  FuseSessionOptions options;
  options.maxParkedReads = 2;
  std::vector<ManifestRow> rows;
  for (int i = 0; i < 12; ++i) rows.push_back(fileRow("f" + std::to_string(i), 4096));
  serve(std::move(rows), std::move(options));
  source_->setDelay(std::chrono::milliseconds(20));
  std::vector<std::thread> readers;
  std::atomic<int> good{0};
  for (int i = 0; i < 12; ++i) {
    readers.emplace_back([&, i] {
      const std::string name = "f" + std::to_string(i);
      good += readAll(mnt(name)) == contentOf(name, 4096) ? 1 : 0;
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(good, 12);
}

TEST_F(FuseWaitTest, AnUnmountEndsTheSession) {
  FuseSessionOptions options;
  std::atomic<bool> ended{false};
  options.onEnd = [&](const Error& reason) {
    EXPECT_EQ(reason.message, "unmounted");
    ended = true;
  };
  serve({fileRow("a", 10)}, std::move(options));
  EXPECT_EQ(readAll(mnt("a")), contentOf("a", 10));
  EXPECT_TRUE(client_->unmount(mnt(), false).ok());
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_TRUE(std::filesystem::is_empty(mnt()));
  session_.reset();
}

TEST_F(FuseWaitTest, AnAbortIsNotCalledAnUnmount) {
  FuseSessionOptions options;
  std::atomic<int> code{0};
  options.onEnd = [&](const Error& reason) { code = static_cast<int>(reason.code); };
  serve({fileRow("a", 10)}, std::move(options));
  EXPECT_EQ(readAll(mnt("a")), contentOf("a", 10));
  const auto list = client_->list();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1U);  // our own mount, and no other's
  ASSERT_TRUE(abortFuseConnection(list->front().minor).ok());
  EXPECT_TRUE(eventually([&] { return code != 0; }));
  EXPECT_EQ(code, static_cast<int>(ErrorCode::kUnavailable));
}

}  // namespace
}  // namespace hearth::fuse_testing
