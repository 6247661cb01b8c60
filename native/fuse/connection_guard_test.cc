#include "fuse/testing/connection_guard.h"

#include <sys/wait.h>

#include "fuse/testing/mount_fixture.h"

namespace hearth::fuse_testing {
namespace {

// Dies while a thread of its own waits for a byte of its own mount.
class Victim : public MountTest {
 public:
  [[noreturn]] void live() {
    SetUp();
    serve({fileRow("model.bin", 4096)});
    source_->setNever(true);
    // Other reads wait for pages, and can be killed.
    const OwnedFd file(open(mnt("model.bin").c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    std::thread reader([&file] {
      alignas(4096) char page[4096];
      (void)!pread(file.get(), page, sizeof page, 0);
    });
    while (source_->waiting() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }

 private:
  void TestBody() override {}
};

TEST(ConnectionGuard, AProgramThatDiesUnderItsOwnReadersEnds) {
  if (const std::string why = whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
  const pid_t program = fork();
  if (program == 0) {
    if (unshare(CLONE_NEWNS) != 0) _exit(1);
    guardConnections();
    Victim().live();
  }
  int status = 0;
  const bool ended = eventually([&] { return waitpid(program, &status, WNOHANG) == program; });
  ASSERT_TRUE(ended) << "it waits for its own answer";
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace hearth::fuse_testing
