// A name is the same file before and after it is complete, and for every agent: programs that keep
// the kernel's inode of it (overlayfs, file handles, descriptors) go on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>

#include "fuse/testing/mount_fixture.h"

namespace hearth::fuse_testing {
namespace {

constexpr std::uint64_t kSize = 2'500'000;

class FuseIdentityTest : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    serve({fileRow("sub/model.bin", kSize), fileRow("probe", 10)});
    source_->setComplete("probe", true);
    EXPECT_EQ(readAll(mnt("probe")), contentOf("probe", 10));
    if (!session_->passthroughReason().empty()) GTEST_SKIP() << session_->passthroughReason();
  }
  void TearDown() override {
    for (const char* path : {"merged", ""}) {
      if (!layers_.empty()) umount2((layers_ / path).c_str(), MNT_DETACH);
    }
    MountTest::TearDown();
  }

  // Mounts a writable layer over the mount; false where this kernel cannot.
  bool mountOverlay() {
    const std::filesystem::path layers = root_ / "layers";
    std::filesystem::create_directory(layers);
    if (mount("tmpfs", layers.c_str(), "tmpfs", 0, nullptr) != 0) return false;
    layers_ = layers;
    for (const char* folder : {"upper", "work", "merged"})
      std::filesystem::create_directory(layers / folder);
    const std::string options = "lowerdir=" + mnt() + ",upperdir=" + (layers / "upper").string() +
                                ",workdir=" + (layers / "work").string();
    return mount("overlay", (layers / "merged").c_str(), "overlay", 0, options.c_str()) == 0;
  }
  std::string merged() const { return (layers_ / "merged/sub/model.bin").string(); }

  static OwnedFd openFile(const std::string& path) {
    return OwnedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  static bool holdsModel(const OwnedFd& file) {
    std::string bytes(kSize + 10, '\0');
    const ssize_t size = pread(file.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return bytes == contentOf("sub/model.bin", kSize);
  }
  static std::uint64_t inodeOf(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
  }
  // Opens by `path` until the kernel has reported the last close and an open passes through.
  bool passesThroughInTheEnd(const std::string& path) {
    const auto opens = statistics().passthroughOpens;
    return eventually([&] {
      const OwnedFd file = openFile(path);
      EXPECT_TRUE(file) << strerror(errno);
      EXPECT_TRUE(holdsModel(file));
      return statistics().passthroughOpens > opens;
    });
  }

  std::filesystem::path layers_;
};

TEST_F(FuseIdentityTest, AnOverlayStaysRightOverCompletionAndHandOver) {
  if (!mountOverlay()) GTEST_SKIP() << "needs overlayfs: " << strerror(errno);
  const std::uint64_t inode = inodeOf(merged());
  EXPECT_NE(inode, 0U);
  OwnedFd early = openFile(merged());
  EXPECT_TRUE(holdsModel(early));

  source_->setComplete("sub/model.bin", true);
  OwnedFd during = openFile(merged());
  ASSERT_TRUE(during) << strerror(errno);
  EXPECT_TRUE(holdsModel(during));
  handOver();
  EXPECT_TRUE(holdsModel(early));
  OwnedFd after = openFile(merged());
  ASSERT_TRUE(after) << strerror(errno);
  EXPECT_TRUE(holdsModel(after));
  EXPECT_EQ(statistics().passthroughOpens, 0U);
  for (OwnedFd* file : {&early, &during, &after}) file->reset();

  EXPECT_TRUE(passesThroughInTheEnd(merged()));
  const OwnedFd direct = openFile(merged());
  handOver();
  EXPECT_TRUE(holdsModel(direct));
  EXPECT_TRUE(holdsModel(openFile(merged())));
  EXPECT_EQ(inodeOf(merged()), inode);
}

TEST_F(FuseIdentityTest, AnOverlayLookedUpBeforeIsReadAfterTheHandOver) {
  if (!mountOverlay()) GTEST_SKIP() << "needs overlayfs: " << strerror(errno);
  const std::uint64_t inode = inodeOf(merged());
  handOver();
  EXPECT_EQ(inodeOf(merged()), inode);
  EXPECT_TRUE(holdsModel(openFile(merged())));
  source_->setComplete("sub/model.bin", true);
  EXPECT_TRUE(passesThroughInTheEnd(merged()));
  EXPECT_EQ(inodeOf(merged()), inode);
}

TEST_F(FuseIdentityTest, AFileHandleStaysRightOverCompletionAndHandOver) {
  alignas(file_handle) char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  auto* const handle = reinterpret_cast<file_handle*>(room);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mountId = 0;
  ASSERT_EQ(name_to_handle_at(AT_FDCWD, mnt("sub/model.bin").c_str(), handle, &mountId, 0), 0);
  const OwnedFd root(open(mnt().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto openHandle = [&] {
    return OwnedFd(open_by_handle_at(root.get(), handle, O_RDONLY | O_CLOEXEC));
  };
  const auto inode = inodeOf(mnt("sub/model.bin"));
  EXPECT_TRUE(holdsModel(openHandle()));
  source_->setComplete("sub/model.bin", true);
  EXPECT_TRUE(holdsModel(openHandle()));
  handOver();
  const OwnedFd file = openHandle();
  ASSERT_TRUE(file) << strerror(errno);
  EXPECT_TRUE(holdsModel(file));
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_ino, inode);
}

TEST_F(FuseIdentityTest, ADescriptorLeadsToItsNameAndOpensAgain) {
  const OwnedFd early = openFile(mnt("sub/model.bin"));
  const std::string link = "/proc/self/fd/" + std::to_string(early.get());
  source_->setComplete("sub/model.bin", true);
  EXPECT_TRUE(holdsModel(openFile(mnt("sub/model.bin"))));
  handOver();
  EXPECT_TRUE(holdsModel(openFile(link)));
  EXPECT_TRUE(holdsModel(openFile(mnt("sub/model.bin"))));
  // Not "... (deleted)": no other inode has taken the name.
  EXPECT_EQ(std::filesystem::read_symlink(link), mnt("sub/model.bin"));
}

TEST_F(FuseIdentityTest, NamesAreLookedUpOnce) {
  // Held, so that a machine that is short of memory does not forget the name.
  const OwnedFd held(open(mnt("sub/model.bin").c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(held);
  const auto before = operations(FUSE_LOOKUP);
  source_->setComplete("sub/model.bin", true);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(holdsModel(openFile(mnt("sub/model.bin"))));
  EXPECT_EQ(operations(FUSE_LOOKUP), before);
}

}  // namespace
}  // namespace hearth::fuse_testing
