#include "gpu/opened_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "gpu/file_cache.h"
#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

class OpenedFileTest : public GpuFixture {
 protected:
  const std::vector<std::byte> bytes_ = randomBytes(3 * 4096 + 100, 5);
  const std::string path_ = makeFile("a", bytes_);
  // At a multiple of 4096.
  std::span<std::byte> aligned(std::size_t bytes) {
    memory_ = *MemoryRegion::allocate(bytes);
    return memory_->bytes().first(bytes);
  }
  std::shared_ptr<MemoryRegion> memory_;
};

TEST_F(OpenedFileTest, readsCachedAndUncachedBytes) {
  const auto file = OpenedFile::open(path_, FileUse::kRead);
  ASSERT_TRUE(file.ok());
  const std::span<std::byte> into = aligned(4 * 4096);
  for (const bool isCached : {true, false}) {
    if (!isCached) {
      sync();
      const OwnedFd advised(::open(path_.c_str(), O_RDONLY));
      ASSERT_EQ(posix_fadvise(advised.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    }
    for (const bool throughPageCache : {false, true}) {
      std::ranges::fill(into, std::byte{0});
      ASSERT_TRUE((*file)->read(into, 0, bytes_.size(), throughPageCache).ok());
      EXPECT_TRUE(std::ranges::equal(into.first(bytes_.size()), bytes_));
      ASSERT_TRUE((*file)->read(into.subspan(1, 5000), 77, 5000, throughPageCache).ok());
      EXPECT_TRUE(std::ranges::equal(into.subspan(1, 5000), std::span(bytes_).subspan(77, 5000)));
    }
  }
}

TEST_F(OpenedFileTest, noticesThatTheFileHasBecomeShorter) {
  const auto file = OpenedFile::open(path_, FileUse::kRead);
  const std::span<std::byte> into = aligned(4 * 4096);
  ASSERT_EQ(truncate(path_.c_str(), 5000), 0);
  for (const bool throughPageCache : {false, true}) {
    const Status read = (*file)->read(into, 0, bytes_.size(), throughPageCache);
    EXPECT_EQ(read.code(), ErrorCode::kIoError);
    EXPECT_THAT(read.error().message, testing::HasSubstr("has become shorter"));
  }
}

TEST_F(OpenedFileTest, writesPagesAndParts) {
  const auto file = OpenedFile::open(path_, FileUse::kWrite);
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> expected = bytes_;
  const std::span<std::byte> from = aligned(2 * 4096);
  std::ranges::copy(randomBytes(from.size(), 9), from.begin());
  ASSERT_TRUE((*file)->write(from, 4096, false).ok());
  std::ranges::copy(from, expected.begin() + 4096);
  ASSERT_TRUE((*file)->write(from.first(33), 5, true).ok());
  std::ranges::copy(from.first(33), expected.begin() + 5);
  EXPECT_EQ(contents(path_), expected);
}

TEST_F(OpenedFileTest, stayInTheCacheByTheirLastUse) {
  FileCache cache(2);
  const std::string b = makeFile("b", bytes_);
  const std::string c = makeFile("c", bytes_);
  const auto first = *cache.open(path_, FileUse::kRead);
  const auto second = *cache.open(b, FileUse::kRead);
  EXPECT_EQ(*cache.open(path_, FileUse::kRead), first);
  EXPECT_TRUE(cache.open(c, FileUse::kRead).ok());
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(*cache.open(path_, FileUse::kRead), first);
  EXPECT_NE(*cache.open(b, FileUse::kRead), second);
  EXPECT_NE(*cache.open(path_, FileUse::kWrite), first);
}

}  // namespace
}  // namespace hearth::testing_gpu
