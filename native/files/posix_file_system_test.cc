#include "files/posix_file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

namespace hearth {
namespace {

std::span<const std::byte> textBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class PosixFileSystemTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hearth-files-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
    auto created = Reactor::create(GetParam());
    ASSERT_TRUE(created.ok()) << created.error().message;
    reactor = std::move(*created);
    files = std::make_unique<PosixFileSystem>(*reactor);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::unique_ptr<File> make(const std::string& name, std::uint32_t mode = 0600) {
    auto opened =
        run(files->open(folder + "/" + name, {.write = true, .create = true, .mode = mode}));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }

  std::string folder;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<PosixFileSystem> files;
};

TEST_P(PosixFileSystemTest, WritesReadsTruncatesAndMaps) {
  const auto file = make("a");
  ASSERT_TRUE(run(file->truncate(10000)).ok());
  ASSERT_TRUE(run(file->writeAt(textBytes("hello"), 9000)).ok());
  ASSERT_TRUE(run(file->syncData()).ok());
  std::array<std::byte, 2000> into{};
  const Result<std::size_t> count = run(file->readAt(into, 9000));
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 1000u);
  EXPECT_EQ(std::memcmp(into.data(), "hello", 5), 0);
  const Result<const std::byte*> mapped = file->map(10000);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(std::memcmp(*mapped + 9000, "hello", 5), 0);
  EXPECT_EQ(*file->map(10000), *mapped);
  const Result<FileInfo> info = run(file->info());
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->size, 10000u);
  EXPECT_LE(info->allocated, 8192u);
}

TEST_P(PosixFileSystemTest, ReadsWhatIsInMemoryWithoutWaiting) {
  const std::unique_ptr<File> file = make("inMemory");
  const std::vector<std::byte> bytes(10000, std::byte{7});
  ASSERT_TRUE(run(file->writeAt(bytes, 0)).ok());
  std::vector<std::byte> read(5000);
  EXPECT_EQ(file->readInMemory(read, 2000), 5000u) << "just written";
  EXPECT_EQ(read, std::vector<std::byte>(5000, std::byte{7}));
  EXPECT_EQ(file->readInMemory(read, 8000), 2000u) << "to the end";
  ASSERT_TRUE(run(file->syncData()).ok());
  ASSERT_EQ(posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_LT(file->readInMemory(read, 2000), 5000u) << "only on the disk";
}

TEST_P(PosixFileSystemTest, SaysWhetherAMappedRangeIsInMemory) {
  const std::unique_ptr<File> file = make("mapped");
  const std::vector<std::byte> bytes(1 << 20, std::byte{7});
  ASSERT_TRUE(run(file->writeAt(bytes, 0)).ok());
  EXPECT_FALSE(file->inMemory(0, 100)) << "it is not mapped";
  const Result<const std::byte*> mapped = file->map(bytes.size());
  ASSERT_TRUE(mapped.ok());
  EXPECT_TRUE(file->inMemory(0, bytes.size())) << "just written";
  EXPECT_TRUE(file->inMemory(5000, 1)) << "inside a page";
  EXPECT_TRUE(file->inMemory(bytes.size() - 1, 100)) << "to the end";
  ASSERT_TRUE(run(file->syncData()).ok());
  // Whole pages that are clean, and mapped by no other.
  ASSERT_EQ(posix_fadvise(file->descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_FALSE(file->inMemory(5000, 1)) << "only on the disk";
}

TEST_P(PosixFileSystemTest, CreatesWithTheExactModeWhateverTheUmask) {
  const mode_t before = umask(077);
  const PosixFileSystem strict(*reactor);
  umask(before);
  files = std::make_unique<PosixFileSystem>(*reactor);
  make("executable", 0555);
  EXPECT_EQ(run(files->info(folder + "/executable"))->mode, 0555u);
}

TEST_P(PosixFileSystemTest, ErrorsNameTheCallAndThePath) {
  const auto absent = run(files->open(folder + "/absent", {}));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.code(), ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find("open " + folder + "/absent"), std::string::npos);
  make("present");
  const OpenFlags exclusive{.write = true, .create = true, .exclusive = true};
  EXPECT_EQ(run(files->open(folder + "/present", exclusive)).code(), ErrorCode::kAlreadyExists);
}

TEST_P(PosixFileSystemTest, LocksAgainstOtherOpeners) {
  auto first = make("lock");
  const auto second = make("lock");
  ASSERT_TRUE(run(first->lock()).ok());
  EXPECT_EQ(run(second->lock()).code(), ErrorCode::kInUse);
  first.reset();
  EXPECT_TRUE(run(second->lock()).ok());
}

TEST_P(PosixFileSystemTest, ChangesNamesAndListsThem) {
  const std::string tree = folder + "/tree";
  ASSERT_TRUE(run(files->makeDirectory(tree, 0755)).ok());
  EXPECT_EQ(run(files->makeDirectory(tree, 0755)).code(), ErrorCode::kAlreadyExists);
  make("tree/a");
  ASSERT_TRUE(run(files->link(tree + "/a", tree + "/b")).ok());
  ASSERT_TRUE(run(files->symlink("a", tree + "/c")).ok());
  ASSERT_TRUE(run(files->rename(tree + "/b", tree + "/d")).ok());
  ASSERT_TRUE(run(files->syncDirectory(tree)).ok());
  auto entries = run(files->list(tree, ListDetail::kInfo));
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 3u);
  for (const DirectoryEntry& entry : *entries) {
    const bool symlink = entry.name == "c";
    EXPECT_EQ(entry.info.kind, symlink ? FileInfo::Kind::kSymlink : FileInfo::Kind::kFile);
    EXPECT_EQ(entry.info.links, symlink ? 1u : 2u);
    ASSERT_TRUE(run(files->unlink(tree + "/" + entry.name)).ok());
  }
  ASSERT_TRUE(run(files->removeDirectory(tree)).ok());
  EXPECT_EQ(run(files->info(tree)).code(), ErrorCode::kNotFound);
  EXPECT_GT(run(files->space(folder))->totalBytes, 0u);
}

TEST_P(PosixFileSystemTest, ReadsPastThePageCacheUpToTheEndOfTheFile) {
  const auto file = make("direct");
  const std::string text(5000, 'x');
  ASSERT_TRUE(run(file->writeAt(textBytes(text), 0)).ok());
  const auto direct = run(files->open(folder + "/direct", {.direct = true}));
  ASSERT_TRUE(direct.ok()) << direct.error().message;
  const std::unique_ptr<std::byte, decltype(&free)> buffer(
      static_cast<std::byte*>(aligned_alloc(4096, 8192)), &free);
  const Result<std::size_t> count = run((*direct)->readAt({buffer.get(), 8192}, 0));
  ASSERT_TRUE(count.ok()) << count.error().message;
  EXPECT_EQ(*count, 5000u);
  EXPECT_EQ(std::memcmp(buffer.get(), text.data(), text.size()), 0);
}

TEST_P(PosixFileSystemTest, WritesPastThePageCacheWhatIsAlignedAndTheRestThroughIt) {
  // Mode 0444 also for a second descriptor; the mapping was there before the bytes were.
  const auto file = run(files->open(
      folder + "/w",
      {.write = true, .create = true, .exclusive = true, .direct = true, .mode = 0444}));
  ASSERT_TRUE(file.ok()) << file.error().message;
  constexpr std::size_t kSize = 3 * 4096 + 17;
  ASSERT_TRUE(run((*file)->truncate(kSize)).ok());
  const Result<const std::byte*> mapped = (*file)->map(kSize);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(std::to_integer<int>((*mapped)[kSize - 1]), 0);
  const std::unique_ptr<std::byte, decltype(&free)> memory(
      static_cast<std::byte*>(aligned_alloc(4096, 4 * 4096)), &free);
  for (std::size_t i = 0; i < kSize; ++i) memory.get()[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(run((*file)->writeAt({memory.get(), kSize}, 0)).ok());
  ASSERT_TRUE(run((*file)->syncData()).ok());
  EXPECT_EQ(std::memcmp(*mapped, memory.get(), kSize), 0);
  // Memory that is not aligned.
  ASSERT_TRUE(run((*file)->writeAt({memory.get() + 1, 4096}, 4096)).ok());
  EXPECT_EQ(std::memcmp(*mapped + 4096, memory.get() + 1, 4096), 0);
  const Result<FileInfo> info = run(files->info(folder + "/w"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->mode, 0444u);
  EXPECT_EQ(info->size, kSize);
}

TEST_P(PosixFileSystemTest, OpensForReadingWithoutTheReactor) {
  const auto file = make("r");
  ASSERT_TRUE(run(file->writeAt(textBytes("abc"), 0)).ok());
  const auto opened = files->openForReading(folder + "/r");
  ASSERT_TRUE(opened.ok());
  EXPECT_GE((*opened)->descriptor(), 0);
  EXPECT_EQ(std::memcmp(*(*opened)->map(3), "abc", 3), 0);
}

INSTANTIATE_TEST_SUITE_P(Backends, PosixFileSystemTest,
                         testing::Values(Reactor::Backend::kAutomatic, Reactor::Backend::kEpoll),
                         [](const auto& instance) {
                           return instance.param == Reactor::Backend::kEpoll ? "Epoll"
                                                                             : "Automatic";
                         });

}  // namespace
}  // namespace hearth
