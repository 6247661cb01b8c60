#include "memory/memory_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "memory/memory_touch.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string pathIn(const OwnedFd& folder, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(folder.get()) + "/" + name;
}

OwnedFd create(const OwnedFd& folder, const std::string& name, std::uint64_t bytes) {
  OwnedFd file(open(pathIn(folder, name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  EXPECT_TRUE(file) << std::strerror(errno);
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

std::string textOf(const OwnedFd& folder, const std::string& name) {
  const OwnedFd file(open(pathIn(folder, name).c_str(), O_RDONLY | O_CLOEXEC));
  char text[16] = {};
  const ssize_t size = read(file.get(), text, sizeof text);
  return size < 0 ? std::strerror(errno) : std::string(text, static_cast<std::size_t>(size));
}

// Sends `descriptor` with one byte.
bool give(int socket, int descriptor) {
  char byte = 'd';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, 0) == 1;
}

OwnedFd take(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  int descriptor = -1;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return OwnedFd();
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return OwnedFd(descriptor);
}

class MemoryFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to make a tmpfs";
  }
  static MemoryFolder make(std::uint64_t bytes, uid_t owner = 0, gid_t group = 0) {
    auto folder = makeMemoryFolder(bytes, owner, group);
    EXPECT_TRUE(folder.ok()) << folder.error().message;
    return folder.ok() ? std::move(*folder) : MemoryFolder();
  }
};

TEST_F(MemoryFolderTest, HoldsFilesUpToItsSize) {
  const MemoryFolder folder = make(8 * kMiB);
  EXPECT_EQ(*memoryFolderBytes(folder.root), 8 * kMiB);
  const OwnedFd file = create(folder.root, "file", 16 * kMiB);
  EXPECT_EQ(fallocate(file.get(), 0, 0, 8 * kMiB), 0);
  EXPECT_NE(fallocate(file.get(), 0, 8 * kMiB, 4096), 0);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(touchMemory(file.get(), 8 * kMiB, 2 * kMiB).code(), ErrorCode::kOutOfSpace);
}

TEST_F(MemoryFolderTest, IsRoundedUpToPages) {
  EXPECT_EQ(*memoryFolderBytes(make(4097).root), 8192u);
  EXPECT_EQ(makeMemoryFolder(0, 0, 0).code(), ErrorCode::kInvalidArgument);
}

TEST_F(MemoryFolderTest, IsForItsOwnerAlone) {
  const MemoryFolder folder = make(kMiB, 12, 34);
  struct stat about {};
  ASSERT_EQ(fstat(folder.root.get(), &about), 0);
  EXPECT_EQ(about.st_uid, 12u);
  EXPECT_EQ(about.st_gid, 34u);
  EXPECT_EQ(about.st_mode & 0777U, 0700u);
}

TEST_F(MemoryFolderTest, GrowsAndShrinks) {
  const MemoryFolder folder = make(4 * kMiB);
  const OwnedFd file = create(folder.root, "file", 8 * kMiB);
  ASSERT_TRUE(resizeMemoryFolder(folder.root, 8 * kMiB).ok());
  EXPECT_EQ(*memoryFolderBytes(folder.root), 8 * kMiB);
  ASSERT_EQ(fallocate(file.get(), 0, 0, 8 * kMiB), 0);
  const Status refused = resizeMemoryFolder(folder.root, 4 * kMiB);
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfSpace) << refused.error().message;
  EXPECT_EQ(resizeMemoryFolder(folder.root, 0).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(*memoryFolderBytes(folder.root), 8 * kMiB) << "as before";
  ASSERT_EQ(ftruncate(file.get(), 4 * kMiB), 0);
  EXPECT_TRUE(resizeMemoryFolder(folder.root, 4 * kMiB).ok());
}

// The maker may end: whichever process has a copy of the descriptor has the files.
TEST_F(MemoryFolderTest, OutlivesItsMaker) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const OwnedFd here(ends[0]);
  OwnedFd there(ends[1]);
  const pid_t maker = fork();
  if (maker == 0) {
    const auto folder = makeMemoryFolder(kMiB, 0, 0);
    if (!folder.ok()) _exit(2);
    const OwnedFd file(open(pathIn(folder->root, "file").c_str(), O_WRONLY | O_CREAT, 0444));
    _exit(write(file.get(), "bytes", 5) == 5 && give(there.get(), folder->root.get()) ? 0 : 1);
  }
  there.reset();
  int status = -1;
  ASSERT_EQ(waitpid(maker, &status, 0), maker);
  ASSERT_EQ(status, 0);
  const OwnedFd folder = take(here.get());
  ASSERT_TRUE(folder);
  EXPECT_EQ(textOf(folder, "file"), "bytes");
  EXPECT_TRUE(create(folder, "next", 10));
  EXPECT_TRUE(resizeMemoryFolder(folder, 2 * kMiB).ok());
  EXPECT_EQ(*memoryFolderBytes(folder), 2 * kMiB);
}

TEST_F(MemoryFolderTest, IsARootDirectoryOfATmpfs) {
  const MemoryFolder folder = make(kMiB);
  const OwnedFd file = create(folder.root, "file", 10);
  ASSERT_EQ(mkdirat(folder.root.get(), "below", 0700), 0);
  const OwnedFd below(openat(folder.root.get(), "below", O_PATH | O_CLOEXEC));
  const OwnedFd other(open("/proc", O_PATH | O_CLOEXEC));
  EXPECT_EQ(memoryFolderBytes(file).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memoryFolderBytes(below).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(memoryFolderBytes(other).code(), ErrorCode::kInvalidArgument);
  const OwnedFd again(openat(folder.root.get(), ".", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(memoryFolderBytes(again).ok());
}

// The last page of a file may be there in part.
TEST_F(MemoryFolderTest, TakesTheRoomOfAFileToItsEnd) {
  const MemoryFolder folder = make(16 * kMiB);
  const OwnedFd file = create(folder.root, "file", 4 * kMiB + 5);
  const auto touched = touchMemory(file.get(), 0, 4 * kMiB + 4096);
  ASSERT_TRUE(touched.ok()) << touched.error().message;
  EXPECT_LE(touched->hugeBytes, 4 * kMiB);
  struct stat about {};
  ASSERT_EQ(fstat(file.get(), &about), 0);
  EXPECT_EQ(about.st_size, static_cast<off_t>(4 * kMiB + 5));
  EXPECT_EQ(static_cast<std::uint64_t>(about.st_blocks) * 512, 4 * kMiB + 4096)
      << "a file takes its own size";
}

}  // namespace
}  // namespace hearth
