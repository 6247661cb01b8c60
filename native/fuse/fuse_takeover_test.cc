// The agent is a process of its own that the tests kill: mounts, open files and waiting readers
// live on and the next agent goes on with them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "fuse/testing/mount_fixture.h"
#include "fuse/testing/takeover_rows.h"

extern char** environ;

namespace hearth::fuse_testing {
namespace {

class FuseTakeoverTest : public MountTest {
 protected:
  // Starts an agent and returns its first line, "serving EPOCH BLOB".
  std::string startAgent() {
    int toAgent[2];
    int fromAgent[2];
    if (pipe2(toAgent, O_CLOEXEC) != 0 || pipe2(fromAgent, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, toAgent[0], 0);
    posix_spawn_file_actions_adddup2(&actions, fromAgent[1], 1);
    std::string program = HEARTH_TEST_AGENT;
    std::string path = socket();
    std::string target = mnt();
    std::string folder = (root_ / "cache").string();
    char* arguments[] = {program.data(), path.data(), target.data(), folder.data(), nullptr};
    EXPECT_EQ(posix_spawn(&agent_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(toAgent[0]);
    close(fromAgent[1]);
    input_.reset(toAgent[1]);
    const OwnedFd output(fromAgent[0]);
    char line[100] = {};
    const ssize_t size = read(output.get(), line, sizeof line - 1);
    return size > 0 ? std::string(line, static_cast<std::size_t>(size)) : "";
  }
  void killAgent() {
    if (agent_ <= 0) return;
    kill(agent_, SIGKILL);
    waitpid(agent_, nullptr, 0);
    agent_ = 0;
  }
  void stopAgent() {
    input_.reset();
    waitpid(agent_, nullptr, 0);
    agent_ = 0;
  }
  void TearDown() override {
    killAgent();
    MountTest::TearDown();
  }
  bool agentGone() {
    auto client = HolderClient::connect(socket());
    return eventually([&] {
      const auto list = (*client)->list();
      return list.ok() && !list->empty() && !list->front().attached;
    });
  }
  std::string readFrom(const OwnedFd& file) {
    std::string bytes(kTakeoverSize, '\0');
    const ssize_t size = pread(file.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return bytes;
  }
  OwnedFd openFile(const std::string& path) {
    return OwnedFd(open(mnt(path).c_str(), O_RDONLY | O_CLOEXEC));
  }

  pid_t agent_ = 0;
  OwnedFd input_;
};

TEST_F(FuseTakeoverTest, TheNextAgentGoesOnWithTheMount) {
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  const std::string whole = contentOf("whole", kTakeoverSize);
  const std::string later = contentOf("later", kTakeoverSize);
  const OwnedFd oldWhole = openFile("whole");
  const OwnedFd oldLater = openFile("later");
  EXPECT_TRUE(readFrom(oldWhole) == whole);
  EXPECT_TRUE(readFrom(oldLater) == later);
  const OwnedFd path(open(mnt("whole").c_str(), O_PATH | O_CLOEXEC));
  const auto directory = std::filesystem::current_path();
  std::filesystem::current_path(mnt("folder"));
  killAgent();
  ASSERT_TRUE(agentGone());
  EXPECT_TRUE(readFrom(oldWhole) == whole);  // passthrough needs no agent

  ASSERT_EQ(startAgent(), "serving 2 digest\n");
  posix_fadvise(oldLater.get(), 0, 0, POSIX_FADV_DONTNEED);
  EXPECT_TRUE(readFrom(oldLater) == later);
  for (const char* name : {"whole", "later"}) {
    const OwnedFd file = openFile(name);
    ASSERT_TRUE(file) << name << ": " << strerror(errno);
    EXPECT_TRUE(readFrom(file) == contentOf(name, kTakeoverSize));
  }
  // Opens that look nothing up, as of a single file that is bind-mounted.
  const OwnedFd again(
      open(("/proc/self/fd/" + std::to_string(path.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(again) << strerror(errno);
  EXPECT_TRUE(readFrom(again) == whole);
  // Folders are the same for ever: a working directory is still there.
  EXPECT_TRUE(readAll("later2") == contentOf("folder/later2", kTakeoverSize));
  EXPECT_EQ(std::filesystem::current_path(), mnt("folder"));
  std::filesystem::current_path(directory);
}

// The agent that found bytes wrong, and had them fetched again, may have gone.
TEST_F(FuseTakeoverTest, TheNextAgentDoesNotTrustPagesOfTheOneBefore) {
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  const OwnedFd path(open(mnt("later").c_str(), O_PATH | O_CLOEXEC));
  const std::string same = "/proc/self/fd/" + std::to_string(path.get());
  EXPECT_TRUE(readAll(same) == contentOf("later", kTakeoverSize));
  killAgent();
  ASSERT_TRUE(agentGone());
  const std::string right = contentOf("right", kTakeoverSize);
  const auto manifest = manifestOf(takeoverRows());
  const std::string bytes = (root_ / "cache" / std::to_string(*manifest->lookUp("later"))).string();
  {
    const OwnedFd file(open(bytes.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(write(file.get(), right.data(), right.size()), static_cast<ssize_t>(right.size()))
        << bytes;
  }
  ASSERT_EQ(startAgent(), "serving 2 digest\n");
  EXPECT_TRUE(readAll(same) == right);
}

TEST_F(FuseTakeoverTest, ReadersThatWaitAreAnsweredByTheNextAgent) {
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  std::atomic<bool> good{false};
  std::thread reader([&] { good = readAll(mnt("later")) == contentOf("later", kTakeoverSize); });
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  killAgent();
  ASSERT_TRUE(agentGone());
  EXPECT_EQ(startAgent(), "serving 2 digest\n");
  reader.join();
  EXPECT_TRUE(good);
}

TEST_F(FuseTakeoverTest, ReadersNoticeNothingOfManyAgents) {
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  std::atomic<bool> stop{false};
  std::atomic<int> failures{0};
  std::atomic<int> rounds{0};
  std::vector<std::thread> readers;
  for (const char* name : {"whole", "later", "folder/later2"}) {
    readers.emplace_back([&, name] {
      const std::string expected = contentOf(name, kTakeoverSize);
      while (!stop) {
        const OwnedFd file = openFile(name);
        if (!file || readFrom(file) != expected) ++failures;
        posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
        ++rounds;
      }
    });
  }
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    if (i % 4 == 3) {
      stopAgent();
    } else {
      killAgent();
    }
    EXPECT_TRUE(agentGone());
    EXPECT_EQ(startAgent(), "serving " + std::to_string(i + 2) + " digest\n");
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GE(rounds, 3);
}

class FuseAbsenceTest : public FuseTakeoverTest {
 protected:
  FuseAbsenceTest() { agentAbsence_ = std::chrono::seconds(1); }
};

TEST_F(FuseAbsenceTest, WithoutAnAgentReadersFailInTheEnd) {
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  EXPECT_TRUE(readAll(mnt("whole")) == contentOf("whole", kTakeoverSize));
  killAgent();
  const auto begin = Clock::now();
  const OwnedFd file = openFile("later");  // waits, then fails
  EXPECT_FALSE(file);
  EXPECT_TRUE(errno == ECONNABORTED || errno == ENOTCONN) << strerror(errno);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
  // The next agent gets no dead mount, and makes a new one in its place.
  ASSERT_EQ(startAgent(), "serving 1 digest\n");
  EXPECT_TRUE(readAll(mnt("whole")) == contentOf("whole", kTakeoverSize));
}

}  // namespace
}  // namespace hearth::fuse_testing
