// The mount as applications see it, served by the daemon.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <cerrno>
#include <random>
#include <set>

#include "fuse/hearth_ioctl.h"
#include "fuse/testing/mapped_read.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::fuse_testing {
namespace {

class FuseMountTest : public MountTest {};

// True when one of twenty attempts holds: the kernel may drop cached pages at any time.
template <typename Attempt>
bool succeedsOnce(Attempt attempt) {
  for (int i = 0; i < 20; ++i) {
    if (attempt()) return true;
  }
  return false;
}

// Its bytes can be found wrong.
ManifestRow digestRow(const std::string& path, std::uint64_t size) {
  ManifestRow row = fileRow(path, size);
  row.sourceDigest = Sha256::of(std::as_bytes(std::span(path)));
  return row;
}

FuseSessionOptions daemonOnly() {
  FuseSessionOptions options;
  options.passthrough = false;
  return options;
}

TEST_F(FuseMountTest, ListsAndStatsTheTree) {
  serve({fileRow("config.json", 700), fileRow("bin/run", 10, true), folderRow("empty"),
         linkRow("latest", "bin/run"), fileRow("bin/nothing", 0)});
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(mnt())) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "bin", "empty", "latest"}));

  struct stat info {};
  ASSERT_EQ(stat(mnt("config.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFREG | 0444U);
  EXPECT_EQ(info.st_size, 700);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'700'000'000);
  EXPECT_EQ(info.st_mtim.tv_nsec, 123'456'789);
  EXPECT_EQ(info.st_ino, *source_->manifest().lookUp("config.json") + 1U);
  ASSERT_EQ(stat(mnt("bin/run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode, S_IFREG | 0555U);
  ASSERT_EQ(lstat(mnt("latest").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_EQ(std::filesystem::read_symlink(mnt("latest")), "bin/run");
  EXPECT_EQ(stat(mnt("absent").c_str(), &info), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(stat(mnt("config.json/x").c_str(), &info), -1);
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_EQ(access(mnt("bin/run").c_str(), X_OK), 0);
  EXPECT_EQ(access(mnt("config.json").c_str(), X_OK), -1);
  EXPECT_EQ(readAll(mnt("bin/nothing")), "");
  EXPECT_TRUE(std::filesystem::is_empty(mnt("empty")));
}

TEST_F(FuseMountTest, AbsentNamesAreAskedForOnce) {
  serve({fileRow("a", 1)});
  struct stat info {};
  EXPECT_NE(stat(mnt("nowhere").c_str(), &info), 0);
  const auto before = operations(FUSE_LOOKUP);
  for (int i = 0; i < 10; ++i) EXPECT_NE(stat(mnt("nowhere").c_str(), &info), 0);
  EXPECT_EQ(operations(FUSE_LOOKUP), before);
}

TEST_F(FuseMountTest, ReadsWholeFilesAndAnywhere) {
  constexpr std::uint64_t kSize = (9 << 20) + 777;
  serve({fileRow("model.bin", kSize)}, daemonOnly());
  source_->setComplete("model.bin", true);
  const std::string expected = contentOf("model.bin", kSize);
  EXPECT_TRUE(readAll(mnt("model.bin")) == expected);
  EXPECT_EQ(statistics().passthroughOpens, 0U);
  EXPECT_EQ(statistics().daemonOpens, 1U);
  EXPECT_GE(statistics().bytes, kSize);

  // Kept in the page cache from open to open, unless the machine is short of memory just then.
  EXPECT_TRUE(succeedsOnce([&] {
    const auto reads = operations(FUSE_READ);
    EXPECT_TRUE(readAll(mnt("model.bin")) == expected);
    return operations(FUSE_READ) == reads;
  }));

  const OwnedFd file(open(mnt("model.bin").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  ASSERT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  std::mt19937_64 random(1);
  std::vector<char> buffer(300'000);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t offset = random() % (kSize + 1000);
    const std::size_t length = 1 + random() % buffer.size();
    const ssize_t got = pread(file.get(), buffer.data(), length, static_cast<off_t>(offset));
    const std::string part = offset < kSize ? expected.substr(offset, length) : "";
    ASSERT_EQ(got, static_cast<ssize_t>(part.size()));
    ASSERT_EQ(std::memcmp(buffer.data(), part.data(), part.size()), 0);
  }
}

TEST_F(FuseMountTest, PagesOfWhatWasFoundWrongAreReadAgainAtTheNextOpen) {
  constexpr std::uint64_t kSize = 200'000;
  serve({digestRow("wrong.bin", kSize), digestRow("other.bin", kSize)}, daemonOnly());
  for (const char* path : {"wrong.bin", "other.bin"}) {
    source_->setComplete(path, true);
    EXPECT_TRUE(readAll(mnt(path)) == contentOf(path, kSize));
  }
  const std::string right = contentOf("right", kSize);
  source_->withdraw("wrong.bin", right);
  EXPECT_TRUE(readAll(mnt("wrong.bin")) == right);
  // Once, and of no other file.
  for (const char* path : {"wrong.bin", "other.bin"}) {
    EXPECT_TRUE(succeedsOnce([&] {
      const auto reads = operations(FUSE_READ);
      std::ignore = readAll(mnt(path));
      return operations(FUSE_READ) == reads;
    })) << path;
  }
  const std::string again = contentOf("again", kSize);
  source_->withdraw("wrong.bin", again);
  EXPECT_TRUE(readAll(mnt("wrong.bin")) == again);
}

TEST_F(FuseMountTest, MapsFiles) {
  constexpr std::uint64_t kSize = 3'000'000;
  serve({fileRow("model.bin", kSize)}, daemonOnly());
  source_->setDelay(std::chrono::milliseconds(1));  // nothing is resident: each fault waits
  EXPECT_EQ(compareMapped(mnt("model.bin"), contentOf("model.bin", kSize)), 0);
  EXPECT_GT(statistics().parkedReads, 0U);
}

TEST_F(FuseMountTest, ListsAHundredThousandEntries) {
  std::vector<ManifestRow> rows;
  for (int i = 0; i < 100'000; ++i) rows.push_back(fileRow("big/file-" + std::to_string(i), 5));
  serve(std::move(rows));
  DIR* const folder = opendir(mnt("big").c_str());
  ASSERT_NE(folder, nullptr);
  std::set<std::string> names;
  while (const dirent* entry = readdir(folder)) names.insert(entry->d_name);
  EXPECT_EQ(names.size(), 100'002U);
  EXPECT_TRUE(names.contains("file-99999"));
  // A second pass comes from the kernel's cache of the folder.
  EXPECT_TRUE(succeedsOnce([&] {
    const auto before = operations(FUSE_READDIR) + operations(FUSE_READDIRPLUS);
    rewinddir(folder);
    std::size_t again = 0;
    while (readdir(folder) != nullptr) ++again;
    EXPECT_EQ(again, 100'002U);
    return operations(FUSE_READDIR) + operations(FUSE_READDIRPLUS) == before;
  }));
  closedir(folder);
}

TEST_F(FuseMountTest, HasExtendedAttributes) {
  serve({fileRow("a", 100)});
  char value[200];
  const auto get = [&](const std::string& path, const char* name) -> std::string {
    const ssize_t size = getxattr(path.c_str(), name, value, sizeof value);
    return size < 0 ? "errno " + std::to_string(errno)
                    : std::string(value, static_cast<std::size_t>(size));
  };
  EXPECT_EQ(get(mnt("a"), "user.hearth.source"), "test-dataset");
  EXPECT_EQ(get(mnt(), "user.hearth.source"), "test-dataset");
  EXPECT_EQ(get(mnt("a"), "user.hearth.resident"), "0/100");
  EXPECT_EQ(get(mnt("a"), "user.hearth.datapath"), "daemon");
  source_->setComplete("a", true);
  EXPECT_EQ(get(mnt("a"), "user.hearth.resident"), "100/100");
  EXPECT_EQ(get(mnt("a"), "user.other"), "errno " + std::to_string(ENODATA));
  EXPECT_EQ(getxattr(mnt("a").c_str(), "user.hearth.source", value, 3), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(getxattr(mnt("a").c_str(), "user.hearth.source", nullptr, 0), 12);
  const ssize_t size = listxattr(mnt("a").c_str(), value, sizeof value);
  ASSERT_GT(size, 0);
  EXPECT_NE(std::string(value, static_cast<std::size_t>(size)).find("user.hearth.datapath"),
            std::string::npos);
}

TEST_F(FuseMountTest, TakesAdviceByIoctl) {
  serve({fileRow("sub/a", 100)});
  const OwnedFd file(open(mnt("sub/a").c_str(), O_RDONLY | O_CLOEXEC));
  const OwnedFd folder(open(mnt("sub").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_WILLNEED), 0);
  EXPECT_EQ(ioctl(folder.get(), HEARTH_IOC_DONTNEED), 0) << strerror(errno);
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_WILLNEED_CLUSTER), 0);
  EXPECT_EQ(ioctl(folder.get(), HEARTH_IOC_DONTNEED_MEMORY), 0);
  EXPECT_EQ(ioctl(file.get(), _IO(0xBE, 77)), -1);
  EXPECT_EQ(errno, ENOTTY);
  const auto reader = static_cast<std::uint64_t>(getpid());
  const std::uint32_t entry = *source_->manifest().lookUp("sub/a");
  const std::uint32_t above = *source_->manifest().lookUp("sub");
  const std::vector<TestSource::Advised> expected{{entry, Advice::kWillNeed, reader},
                                                  {above, Advice::kDontNeed, reader},
                                                  {entry, Advice::kWillNeedCluster, reader},
                                                  {above, Advice::kDontNeedMemory, reader}};
  EXPECT_EQ(source_->advices(), expected);
}

TEST_F(FuseMountTest, SaysWhyAdviceIsNotTaken) {
  serve({fileRow("a", 100)});
  const OwnedFd file(open(mnt("a").c_str(), O_RDONLY | O_CLOEXEC));
  source_->refuseAdvice(ErrorCode::kUnavailable);
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_WILLNEED), -1);
  EXPECT_EQ(errno, EAGAIN);
  source_->refuseAdvice(ErrorCode::kInvalidArgument);
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_DONTNEED), -1);
  EXPECT_EQ(errno, E2BIG);
}

// The ioctl comes by a descriptor, so its caller has the file open: counted as others' opens are,
// it would keep the file, and the advice would never do anything (that by passthrough is tested in
// fuse_passthrough_test.cc).
TEST_F(FuseMountTest, WhoeverSaysDontNeedDoesNotKeepTheFileByThat) {
  serve({fileRow("a", 100'000)}, daemonOnly());
  source_->setComplete("a", true);
  const OwnedFd file(open(mnt("a").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(source_->openObjects(), 1);
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_DONTNEED), 0);
  EXPECT_EQ(source_->openObjects(), 0);
  EXPECT_EQ(source_->advices().size(), 1U);
  // It is open all the same, and is read again.
  std::string bytes(100'000, '\0');
  EXPECT_EQ(pread(file.get(), bytes.data(), bytes.size(), 0), 100'000);
  EXPECT_EQ(bytes, contentOf("a", 100'000));
  EXPECT_EQ(source_->openObjects(), 1);
  // Another open keeps it.
  const OwnedFd other(open(mnt("a").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ioctl(file.get(), HEARTH_IOC_DONTNEED), 0);
  EXPECT_EQ(source_->openObjects(), 1);
}

TEST_F(FuseMountTest, IsReadOnly) {
  serve({fileRow("a", 100)});
  EXPECT_EQ(open(mnt("a").c_str(), O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(open(mnt("new").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(unlink(mnt("a").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(mkdir(mnt("d").c_str(), 0700), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(chmod(mnt("a").c_str(), 0600), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(setxattr(mnt("a").c_str(), "user.x", "1", 1, 0), -1);
  EXPECT_EQ(errno, EROFS);
}

TEST_F(FuseMountTest, AnswersStatfsFromTheManifest) {
  serve({fileRow("a", 1 << 20), fileRow("b", 1)});
  struct statvfs info {};
  ASSERT_EQ(statvfs(mnt().c_str(), &info), 0);
  EXPECT_EQ(info.f_blocks * info.f_frsize, (1U << 20) + 4096U);
  EXPECT_EQ(info.f_bfree, 0U);
  EXPECT_EQ(info.f_files, 3U);
  EXPECT_TRUE((info.f_flag & ST_RDONLY) != 0);
}

TEST_F(FuseMountTest, UnderstandsFileHandles) {
  serve({fileRow("sub/a", 100)}, daemonOnly());
  source_->setComplete("sub/a", true);
  alignas(file_handle) char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  auto* const handle = reinterpret_cast<file_handle*>(room);
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mountId = 0;
  ASSERT_EQ(name_to_handle_at(AT_FDCWD, mnt("sub/a").c_str(), handle, &mountId, 0), 0);
  const OwnedFd root(open(mnt().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const OwnedFd file(open_by_handle_at(root.get(), handle, O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file) << strerror(errno);
  std::string bytes(100, '\0');
  EXPECT_EQ(read(file.get(), bytes.data(), 100), 100);
  EXPECT_EQ(bytes, contentOf("sub/a", 100));
}

TEST_F(FuseMountTest, AsksForTheRestOfAFileThatIsReadInOrder) {
  constexpr std::uint64_t kSize = 24 << 20;
  serve({fileRow("model.bin", kSize)}, daemonOnly());
  source_->setComplete("model.bin", true);
  EXPECT_TRUE(readAll(mnt("model.bin")) == contentOf("model.bin", kSize));
  ASSERT_TRUE(eventually([&] { return !source_->hints().empty(); }));
  const auto last = source_->hints().back();
  EXPECT_EQ(last.first + last.second, kSize);
}

TEST_F(FuseMountTest, FailedReadsAreErrorsAndCounted) {
  serve({fileRow("a", 100)});
  source_->failReads(ErrorCode::kUnavailable);
  const OwnedFd file(open(mnt("a").c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  EXPECT_EQ(read(file.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_GT(statistics().failedReads, 0U);
  ASSERT_FALSE(source_->failures().empty());
  EXPECT_EQ(source_->failures().front(),
            std::make_pair(*source_->manifest().lookUp("a"), ErrorCode::kUnavailable));
  source_->failReads(ErrorCode::kOk);
  EXPECT_EQ(read(file.get(), &byte, 1), 1);
}

}  // namespace
}  // namespace hearth::fuse_testing
