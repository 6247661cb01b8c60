#include "holder/child_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

TEST(ChildCalls, GiveBytesAndADescriptor) {
  ChildCalls calls;
  const auto answer = calls.run("work", [] {
    return ChildAnswer{"bytes", OwnedFd(open("/dev/zero", O_RDONLY | O_CLOEXEC))};
  });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->bytes, "bytes");
  char byte = 0;
  EXPECT_EQ(read(answer->descriptor.get(), &byte, 1), 1);
  EXPECT_TRUE(calls.run("work", [] { return ChildAnswer(); })->bytes.empty());
}

// Also when it has the number that the child's channel gets, or the one that it gets itself.
TEST(ChildCalls, GiveTheChildACopyOfADescriptor) {
  ChildCalls calls;
  std::vector<OwnedFd> low;
  for (int i = 0; i < 8; ++i) {
    const std::string text = "bytes " + std::to_string(i);
    low.emplace_back(memfd_create("given", MFD_CLOEXEC));
    ASSERT_EQ(pwrite(low.back().get(), text.data(), text.size(), 0), 7);
    auto running = calls.begin(
        "work",
        [] {
          std::string bytes(7, 0);
          if (pread(ChildCalls::kDescriptor, bytes.data(), 7, 0) != 7) bytes = "none";
          if (fcntl(ChildCalls::kDescriptor + 1, F_GETFD) >= 0) bytes = "one more";
          return ChildAnswer{bytes, {}};
        },
        low.back().get());
    ASSERT_TRUE(running.ok());
    const auto answer = calls.finish(std::move(*running));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->bytes, text);
  }
}

TEST(ChildCalls, GiveAStatus) {
  ChildCalls calls;
  EXPECT_TRUE(calls.runStatus("work", [] { return Status(); }).ok());
  const Status failed = calls.runStatus("work", []() -> Status {
    return Error{ErrorCode::kInUse, "another has it"};
  });
  EXPECT_EQ(failed.code(), ErrorCode::kInUse);
  EXPECT_EQ(failed.error().message, "another has it");
}

TEST(ChildCalls, DoNotWaitForWorkThatNeverEnds) {
  ChildCalls calls(std::chrono::milliseconds(50));
  const auto answer = calls.run("mount x", []() -> ChildAnswer {
    for (;;) pause();
  });
  EXPECT_EQ(answer.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(answer.error().message.find("mount x"), std::string::npos);
}

TEST(ChildCalls, ReportAChildThatDies) {
  ChildCalls calls;
  const auto answer = calls.run("work", []() -> ChildAnswer { _exit(3); });
  EXPECT_EQ(answer.code(), ErrorCode::kInternal);
}

TEST(ChildCalls, HaveNoDescriptorOfTheProcess) {
  ChildCalls calls;
  const OwnedFd secret(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = secret.get();
  const auto answer = calls.run("work", [number] {
    return ChildAnswer{fcntl(number, F_GETFD) < 0 ? "none" : "", {}};
  });
  // Its channel may have taken the number over.
  if (number > 3) {
    EXPECT_EQ(answer->bytes, "none");
  }
}

// Else it would keep what it holds, a mount point or a pipe, for as long as its call takes.
TEST(ChildCalls, EndWithTheProcessThatIsKilled) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  auto* const worker = static_cast<std::atomic<pid_t>*>(mmap(nullptr, sizeof(std::atomic<pid_t>),
                                                             PROT_READ | PROT_WRITE,
                                                             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(worker, MAP_FAILED);
  const pid_t agent = fork();
  if (agent == 0) {
    ChildCalls calls(2 * kHang);
    (void)calls.run("work", [worker]() -> ChildAnswer {
      *worker = getpid();
      for (;;) pause();
    });
    _exit(0);
  }
  ASSERT_TRUE(eventually([&] { return *worker != 0; }));
  kill(agent, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(agent, &status, 0), agent);
  const bool ended = eventually([&] { return waitpid(*worker, &status, WNOHANG) == *worker; });
  EXPECT_TRUE(ended);
  if (!ended) kill(*worker, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  munmap(worker, sizeof *worker);
}

}  // namespace
}  // namespace hearth
