#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <set>

#include "volume_mount/testing/volume_fixture.h"

namespace hearth::volume_testing {
namespace {

class VolumeMount : public VolumeMountTest {};

TEST_F(VolumeMount, OneNodeWritesAndTheOtherReadsAfterClose) {
  const std::string bytes(300'000, 'x');
  {
    const OwnedFd file(open(at(a_, "new").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
    ASSERT_TRUE(file) << strerror(errno);
    ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(statOf(at(a_, "new")).st_size, 300'000);
    EXPECT_EQ(statOf(at(b_, "new")).st_size, 0);  // not published
  }
  EXPECT_EQ(bytesOf(at(b_, "new")), bytes);
  EXPECT_EQ(statOf(at(b_, "new")).st_mode, S_IFREG | 0640U);
  EXPECT_EQ(operations(a_, FUSE_WRITE), 0U);
  ASSERT_EQ(rename(at(a_, "new").c_str(), at(a_, "named").c_str()), 0);
  EXPECT_EQ(access(at(b_, "new").c_str(), F_OK), -1);
  EXPECT_EQ(bytesOf(at(b_, "named")), bytes);
}

TEST_F(VolumeMount, AnOpenReaderKeepsItsBytesWhenTheFileIsWrittenAgain) {
  writeFile(at(a_, "file"), "first version");
  const OwnedFd here(open(at(a_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  const OwnedFd there(open(at(b_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(here && there);
  const ino_t inode = statOf(at(a_, "file")).st_ino;
  writeFile(at(a_, "file"), "2nd");
  EXPECT_EQ(readAt(here, 100), "first version");
  EXPECT_EQ(readAt(there, 100), "first version");
  struct stat old {};
  ASSERT_EQ(fstat(here.get(), &old), 0);
  EXPECT_EQ(old.st_size, 13);
  ASSERT_EQ(fstat(there.get(), &old), 0);
  EXPECT_EQ(old.st_size, 13);
  EXPECT_EQ(bytesOf(at(a_, "file")), "2nd");
  EXPECT_EQ(bytesOf(at(b_, "file")), "2nd");
  EXPECT_EQ(statOf(at(a_, "file")).st_ino, inode);
}

TEST_F(VolumeMount, ReadersOfTheWritingNodeSeeWritesAtOnce) {
  const OwnedFd writer(
      open(at(a_, "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const OwnedFd reader(open(at(a_, "log").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(writer && reader) << strerror(errno);
  ASSERT_EQ(write(writer.get(), "one", 3), 3);
  EXPECT_EQ(readAt(reader, 10), "one");
  void* const mapped = mmap(nullptr, 3, PROT_READ, MAP_SHARED, reader.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(std::memcmp(mapped, "one", 3), 0);
  munmap(mapped, 3);
}

TEST_F(VolumeMount, AnEmptyFileThatANodeHasOpenOpensOnTheOtherAndIsWrittenWhenItIsClosed) {
  OwnedFd first(open(at(a_, "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  const OwnedFd second(open(at(b_, "lock").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  ASSERT_TRUE(first && second) << strerror(errno);
  EXPECT_EQ(pwrite(second.get(), "b", 1, 0), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(readAt(second, 10), "");
  first.reset();
  // The kernel releases a file after its close.
  ASSERT_TRUE(eventually([&] { return pwrite(second.get(), "pid 1", 5, 0) == 5; }));
  EXPECT_EQ(readAt(second, 10), "pid 1");
  EXPECT_EQ(bytesOf(at(a_, "lock")), "pid 1");
  const OwnedFd end(open(at(b_, "lock").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  EXPECT_EQ(write(end.get(), "2", 1), 1);
  EXPECT_EQ(readAt(second, 10), "pid 12");
}

TEST_F(VolumeMount, AFileThatANodeWritesIsBusyOnTheOther) {
  writeFile(at(a_, "busy"), "published");
  const OwnedFd writer(open(at(a_, "busy").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(writer);
  EXPECT_EQ(open(at(b_, "busy").c_str(), O_WRONLY | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(unlink(at(b_, "busy").c_str()), 0);
  struct stat info {};
  ASSERT_EQ(fstat(writer.get(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0U);
  bool open = false;
  onReactor([&] { open = a_.files->isOpen(tree::InodeId{info.st_ino}); });
  EXPECT_TRUE(open);
}

TEST_F(VolumeMount, CopiesOfADescriptorPublishNothing) {
  const OwnedFd file(open(at(a_, "forked").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_TRUE(file);
  ASSERT_EQ(write(file.get(), "half", 4), 4);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_GE(operations(a_, FUSE_FLUSH), 1U);
  EXPECT_EQ(a_.files->publishes, 0U);
  EXPECT_EQ(statOf(at(b_, "forked")).st_size, 0);
}

TEST_F(VolumeMount, AFailedPublishIsTheErrorOfClose) {
  const int file = open(at(a_, "failing").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "x", 1), 1);
  a_.files->publishError = ENOSPC;
  EXPECT_EQ(close(file), -1);
  EXPECT_EQ(errno, ENOSPC);
}

TEST_F(VolumeMount, NamesFoldersAndLinks) {
  ASSERT_EQ(mkdir(at(a_, "folder").c_str(), 0750), 0);
  EXPECT_EQ(statOf(at(b_, "folder")).st_mode, S_IFDIR | 0750U);
  writeFile(at(a_, "folder/file"), "bytes");
  ASSERT_EQ(link(at(a_, "folder/file").c_str(), at(a_, "second").c_str()), 0);
  EXPECT_EQ(statOf(at(b_, "second")).st_nlink, 2U);
  ASSERT_EQ(symlink("folder/file", at(a_, "symlink").c_str()), 0);
  EXPECT_EQ(bytesOf(at(b_, "symlink")), "bytes");
  ASSERT_EQ(mknod(at(a_, "fifo").c_str(), S_IFIFO | 0600, 0), 0);
  EXPECT_TRUE(S_ISFIFO(statOf(at(b_, "fifo")).st_mode));
  EXPECT_EQ(mknod(at(a_, "device").c_str(), S_IFCHR | 0600, 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(rmdir(at(b_, "folder").c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
  EXPECT_EQ(renameat2(AT_FDCWD, at(a_, "second").c_str(), AT_FDCWD, at(a_, "fifo").c_str(),
                      RENAME_NOREPLACE),
            -1);
  EXPECT_EQ(errno, EEXIST);
  ASSERT_EQ(renameat2(AT_FDCWD, at(a_, "second").c_str(), AT_FDCWD, at(a_, "fifo").c_str(),
                      RENAME_EXCHANGE),
            0);
  EXPECT_TRUE(S_ISFIFO(statOf(at(b_, "second")).st_mode));
  ASSERT_EQ(unlink(at(a_, "folder/file").c_str()), 0);
  EXPECT_EQ(rmdir(at(a_, "folder").c_str()), 0);
  EXPECT_EQ(mkdir(at(a_, std::string(256, 'n')).c_str(), 0700), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(VolumeMount, ListsEveryNameOnceAlsoOfManyFiles) {
  std::set<std::string> wanted;
  for (int i = 0; i < 2'000; ++i)
    wanted.insert("entry-with-a-rather-long-name-" + std::to_string(i));
  for (const std::string& name : wanted) ASSERT_EQ(mkdir(at(a_, name).c_str(), 0700), 0);
  for (const Node* const node : {&a_, &b_}) {
    std::set<std::string> seen;
    for (const auto& entry : std::filesystem::directory_iterator(at(*node)))
      EXPECT_TRUE(seen.insert(entry.path().filename()).second);
    EXPECT_EQ(seen, wanted);
  }
}

TEST_F(VolumeMount, AttributesAndTheirErrors) {
  writeFile(at(a_, "file"), "0123456789");
  const std::string path = at(a_, "file");
  ASSERT_EQ(truncate(path.c_str(), 4), 0);
  EXPECT_EQ(statOf(at(b_, "file")).st_size, 4);
  EXPECT_EQ(bytesOf(at(b_, "file")), "0123");
  ASSERT_EQ(chmod(path.c_str(), 06755), 0);
  ASSERT_EQ(chown(path.c_str(), 7, 8), 0);
  const struct stat owned = statOf(at(b_, "file"));
  EXPECT_EQ(owned.st_uid, 7U);
  EXPECT_EQ(owned.st_gid, 8U);
  EXPECT_EQ(owned.st_mode, S_IFREG | 0755U);  // chown clears set-id bits
  const timespec times[2] = {{1000, 1}, {2000, 2}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(statOf(at(b_, "file")).st_mtim.tv_nsec, 2);
  ASSERT_EQ(setxattr(path.c_str(), "user.a", "value", 5, XATTR_CREATE), 0);
  EXPECT_EQ(setxattr(path.c_str(), "user.a", "value", 5, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  char value[16];
  EXPECT_EQ(getxattr(at(b_, "file").c_str(), "user.a", value, sizeof value), 5);
  EXPECT_EQ(listxattr(at(b_, "file").c_str(), value, sizeof value), 7);
  EXPECT_EQ(removexattr(path.c_str(), "user.a"), 0);
  EXPECT_EQ(getxattr(path.c_str(), "user.a", value, sizeof value), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(setxattr(path.c_str(), "security.other", "x", 1, 0), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(VolumeMount, WritesAskForCapabilitiesOnceAFile) {
  const OwnedFd file(open(at(a_, "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(write(file.get(), "x", 1), 1);
  EXPECT_LE(operations(a_, FUSE_GETXATTR), 1U);
}

TEST_F(VolumeMount, FilesAreSyncedAndAllocated) {
  const OwnedFd file(open(at(a_, "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_EQ(fallocate(file.get(), 0, 0, 1 << 20), 0);
  struct stat info {};
  ASSERT_EQ(fstat(file.get(), &info), 0);
  EXPECT_EQ(info.st_size, 1 << 20);
  ASSERT_EQ(fsync(file.get()), 0);
  EXPECT_EQ(a_.files->syncs, 1U);
  EXPECT_EQ(open(at(a_).c_str(), O_TMPFILE | O_RDWR, 0600), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace hearth::volume_testing
