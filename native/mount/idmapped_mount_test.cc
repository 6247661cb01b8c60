#include "mount/idmapped_mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/eventually.h"
#include "base/testing/pod_attack.h"
#include "base/testing/pod_users.h"
#include "mount/view_mount.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

class IdmappedMountTest : public testing::Test {
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

TEST_F(IdmappedMountTest, CannotBeWrittenByACopyWhoseFlagIsTakenOff) {
  const Status bound = bindIdmapped(path("view"), path("target"));
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

// Root in a container owns the file, unless it comes through such a mount.
TEST_F(IdmappedMountTest, APodCannotChangeAFileThatItHasOpen) {
  using pod_attack::changeMadeBy;
  using pod_attack::Pod;
  ASSERT_EQ(mkdir(path("view/of").c_str(), 0755), 0);
  std::ofstream(path("view/of/others")) << "bytes";
  const Status bound = bindIdmapped(path("view"), path("target"));
  if (bound.code() == ErrorCode::kUnsupported) GTEST_SKIP() << bound.error().message;
  ASSERT_TRUE(bound.ok()) << bound.error().message;
  const Result<OwnedFd> apart = makeIdmapped(path("view"));
  ASSERT_TRUE(apart.ok()) << apart.error().message;
  const OwnedFd bare(open(path("view/of/others").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_STREQ(changeMadeBy(Pod::kWithoutCapabilities, bare.get()), "fchmod of the descriptor");
  for (const char* const file : {"file", "program"}) {
    const OwnedFd view(open(path((std::string("target/") + file).c_str()).c_str(), O_RDONLY));
    const OwnedFd below(openat(apart->get(), file, O_RDONLY | O_CLOEXEC));
    for (const OwnedFd* const fd : {&view, &below}) {
      ASSERT_TRUE(*fd);
      EXPECT_STREQ(changeMadeBy(Pod::kWithoutCapabilities, fd->get()), "") << file;
      EXPECT_STREQ(changeMadeBy(Pod::kWithUserNamespace, fd->get()), "") << file;
    }
  }
  EXPECT_EQ(content(path("view/file")), "bytes");
}

// So pods with a user namespace read through FUSE.
TEST_F(IdmappedMountTest, NoContainerRuntimeCanMapItAgain) {
  const OwnedFd users = pod_users::makeNamespace();
  if (!users) GTEST_SKIP() << "needs user namespaces: " << strerror(errno);
  const Status bound = bindIdmapped(path("view"), path("target"));
  if (bound.code() == ErrorCode::kUnsupported) GTEST_SKIP() << bound.error().message;
  ASSERT_TRUE(bound.ok()) << bound.error().message;
  EXPECT_EQ(pod_users::bindMapped(path("target"), path("container"), users), EPERM);
}

TEST_F(IdmappedMountTest, BindsAView) {
  ChildCalls calls;
  ASSERT_TRUE(bindView(calls, path("view"), path("target")).ok());
  ASSERT_TRUE(bindView(calls, path("view"), path("target")).ok()) << "the same again";
  EXPECT_EQ(content(path("target/file")), "bytes");
  EXPECT_LT(open((path("target") + "/new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666), 0);
  ASSERT_TRUE(unbindView(calls, path("target")).ok());
  EXPECT_EQ(unbindView(calls, path("target")).error().code, ErrorCode::kNotFound);
}

TEST_F(IdmappedMountTest, FailsForAMissingPath) {
  EXPECT_FALSE(bindIdmapped(path("absent"), path("target")).ok());
  EXPECT_FALSE(bindIdmapped(path("view"), path("absent")).ok());
}

// A process with the lock of its cache, like an agent, is killed at any moment while it binds: the
// next one can start, and nothing of the killed one is left.
TEST_F(IdmappedMountTest, AProcessThatIsKilledWhileItBindsLeavesNoProcessAndNoLock) {
  const Status bound = bindIdmapped(path("view"), path("target"));
  if (!bound.ok()) GTEST_SKIP() << bound.error().message;
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const std::string lock = path("lock");
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t agent = fork();
    if (agent == 0) {
      close(ends[0]);
      flock(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), LOCK_EX);
      while (write(ends[1], "", 1) == 1) {
        umount2(path("target").c_str(), MNT_DETACH);
        (void)bindIdmapped(path("view"), path("target"));
      }
      _exit(1);
    }
    close(ends[1]);
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    usleep(static_cast<useconds_t>(round * 37 % 1000));
    kill(agent, SIGKILL);
    EXPECT_EQ(waitpid(agent, nullptr, 0), agent);
    // All that have a copy of the other end have ended.
    pollfd ended{ends[0], 0, 0};
    EXPECT_EQ(poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kHang).count())), 1)
        << "round " << round;
    const int next = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_TRUE(eventually([&] { return flock(next, LOCK_EX | LOCK_NB) == 0; })) << round;
    close(next);
    close(ends[0]);
    // This process has inherited the helper, which is in the killed one's group.
    EXPECT_TRUE(eventually([] { return waitpid(0, nullptr, WNOHANG | __WALL) != 0; }))
        << "a child that goes on";
    while (umount2(path("target").c_str(), MNT_DETACH) == 0) {
    }
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace hearth
