// The library inside a program: its threads, children of fork(2), and limits of the system.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/testing/sanitizers.h"
#include "client_tests/testing/agent_process.h"
#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

struct ProcessesTest : ClientTest {
  ProcessesTest() {
    origin.add("model", kChunkBytes);
    origin.write();
    agent = std::make_unique<AgentProcess>(origin, "one", "127.0.0.61");
    useToken(capabilityOf({"llm"}));
    address = agent->address();
  }
  // The exit status of a child that runs `action`, which must not use what other threads may lock.
  template <class Action>
  static int inChild(Action action) {
    const pid_t child = fork();
    if (child == 0) _exit(action());
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  SharedOrigin origin;
  std::unique_ptr<AgentProcess> agent;  // so that this process has the library alone
  std::string address;
};

// Of the thread, as /proc has it.
std::uint64_t blockedSignals(const std::filesystem::path& task) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return 0;
}

TEST_F(ProcessesTest, ThreadsOfTheLibraryTakeNoSignals) {
  open(address);
  EXPECT_EQ(codeOf("/dataset/llm/model", 0, kChunkBytes), 0u);
  const auto bit = [](int signal) { return std::uint64_t{1} << (signal - 1); };
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (!name.starts_with("gd2fs-")) continue;
    ++threads;
    const std::uint64_t blocked = blockedSignals(task.path());
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGALRM})
      EXPECT_NE(blocked & bit(signal), 0u) << name << ", signal " << signal;
    EXPECT_EQ(blocked & (bit(SIGSEGV) | bit(SIGBUS)), 0u) << name;
  }
  EXPECT_EQ(threads, 2);
  EXPECT_EQ(blockedSignals("/proc/thread-self") & bit(SIGTERM), 0u) << "the program's own";
}

// The agent of these tests is in this process and has the handlers, but the library has its own
// copy of everything.
TEST_F(ProcessesTest, TheProgramsHandlersStay) {
  struct sigaction ours {
  }, after{};
  ours.sa_handler = SIG_DFL;
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGSEGV, &ours, &before), 0);
  open(address);
  EXPECT_EQ(codeOf("/dataset/llm/model", 0, 100), 0u);
  EXPECT_EQ(codeOf("/dataset/llm/model", 0, kChunkBytes), 0u);
  sigaction(SIGSEGV, &before, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
}

TEST_F(ProcessesTest, AChildEndsWhileItsParentWaits) {
  if (kSanitized) GTEST_SKIP() << "sanitizers look at threads that a child does not have";
  open(address);
  std::thread waiter([this] {
    xfer_gd2fs_completion done;
    EXPECT_EQ(xfer_gd2fs_wait(ctx, &done, 1, -1), -EBADF);
  });
  EXPECT_EQ(inChild([]() -> int { std::exit(7); }), 7);
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  waiter.join();
}

TEST_F(ProcessesTest, WithoutThreadsConnectSaysTryAgain) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have threads and memory of their own";
  const xfer_gd2fs_options given = options(address);
  const int error = inChild([&] {
    // Root may start as many as it likes.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 255;
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return 255;
    return xfer_gd2fs_connect(&given) == nullptr ? errno : 0;
  });
  EXPECT_EQ(error, EAGAIN);
}

}  // namespace
}  // namespace hearth::testing_client
