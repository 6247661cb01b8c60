// Pods with a user namespace (`hostUsers: false`): container runtimes map the ids of a mount for
// them. Such pods read, and their root can change nothing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/testing/pod_attack.h"
#include "base/testing/pod_users.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::fuse_testing {
namespace {

constexpr std::uint64_t kSize = 2'500'000;

class FuseMappedTest : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    serve({fileRow("sub/model.bin", kSize), fileRow("probe", 10)});
    source_->setComplete("probe", true);
    // The first answer comes after FUSE_INIT.
    EXPECT_EQ(readAll(mnt("probe")), contentOf("probe", 10));
    users_ = pod_users::makeNamespace();
    if (!users_) GTEST_SKIP() << "needs user namespaces: " << strerror(errno);
    std::filesystem::create_directory(root_ / "pod");
    // Root of the pod is another user on the node.
    ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
    const int error = pod_users::bindMapped(mnt(), pod(), users_);
    if (error == EINVAL) GTEST_SKIP() << "needs FUSE mounts whose ids can be mapped (Linux 6.12)";
    ASSERT_EQ(error, 0) << strerror(error);
  }
  void TearDown() override {
    umount2(pod().c_str(), MNT_DETACH);
    MountTest::TearDown();
  }
  std::string pod(const std::string& path = "") const {
    return (root_ / "pod").string() + (path.empty() ? "" : "/" + path);
  }
  // In a process that is root of the pod: 0, or the errno of the first step that failed.
  int readAsRoot(const std::string& path, const std::string& expected) const;

  OwnedFd users_;
};

int FuseMappedTest::readAsRoot(const std::string& path, const std::string& expected) const {
  const std::string file = pod(path);
  std::string bytes(expected.size(), '\0');
  const pid_t child = fork();
  if (child == 0) {
    struct stat about {};
    if (!pod_users::becomeRoot(users_)) _exit(errno);
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) _exit(errno);
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got < 0) _exit(errno);
    const bool same = static_cast<std::size_t>(got) == bytes.size() && bytes == expected;
    _exit(same && about.st_uid == 0 && about.st_gid == 0 ? 0 : EBADMSG);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

TEST_F(FuseMappedTest, APodReads) {
  const std::string model = contentOf("sub/model.bin", kSize);
  EXPECT_EQ(readAsRoot("sub/model.bin", model), 0);
  source_->setComplete("sub/model.bin", true);
  EXPECT_EQ(readAsRoot("sub/model.bin", model), 0);
  handOver();
  EXPECT_EQ(readAsRoot("sub/model.bin", model), 0);
  EXPECT_TRUE(readAll(mnt("sub/model.bin")) == model) << "without a map";
}

TEST_F(FuseMappedTest, ItsRootCanChangeNothing) {
  for (const bool complete : {false, true}) {
    source_->setComplete("sub/model.bin", complete);
    const OwnedFd file(open(pod("sub/model.bin").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file) << strerror(errno);
    const auto become = [this] { return pod_users::becomeRoot(users_); };
    EXPECT_STREQ(pod_attack::changeMadeAfter(become, file.get()), "") << complete;
    for (const auto kind :
         {pod_attack::Pod::kWithoutCapabilities, pod_attack::Pod::kWithUserNamespace})
      EXPECT_STREQ(pod_attack::changeMadeBy(kind, file.get()), "") << complete;
  }
  EXPECT_TRUE(readAll(pod("sub/model.bin")) == contentOf("sub/model.bin", kSize));
}

}  // namespace
}  // namespace hearth::fuse_testing
