// Huge pages of the kernel. These tests set pages of the machine apart, so they are slow, and fail
// where another program takes the pages meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/owned_fd.h"
#include "memory/memory_region.h"
#include "memory/memory_touch.h"
#include "memory/testing/set_huge_pages.h"

namespace hearth {
namespace {

using testing_memory::SetHugePages;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr unsigned kHugeTwoMiB = MFD_HUGETLB | (21u << MAP_HUGE_SHIFT);

// A file of memory, so large, which can grow and cannot shrink.
int sealedFile(off_t size, unsigned flags = 0) {
  const int file = ::memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  EXPECT_EQ(::ftruncate(file, size), 0);
  EXPECT_EQ(::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return file;
}

OwnedFd fileOf(std::uint64_t bytes, unsigned flags = 0) {
  OwnedFd file(::memfd_create("touched", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

std::uint64_t roomOf(const OwnedFd& file) {
  struct stat about {};
  EXPECT_EQ(::fstat(file.get(), &about), 0);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

TEST(MemoryRegion, OfHugePagesSaysHowManyAreMissing) {
  const SetHugePages none(0);
  const std::size_t pages = none.free();
  const auto region = MemoryRegion::allocate((pages << 21) + 1, PageSize::kHuge);
  ASSERT_FALSE(region.ok());
  EXPECT_EQ(region.error().code, ErrorCode::kOutOfSpace);
  EXPECT_NE(region.error().message.find("fewer than " + std::to_string(pages + 1)),
            std::string::npos)
      << region.error().message;
  EXPECT_FALSE(MemoryRegion::allocate(0).ok());
}

TEST(MemoryRegion, OfHugePagesIsRoundedUpToThem) {
  const SetHugePages one(1);
  if (!one.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  const auto region = MemoryRegion::allocate(1, PageSize::kHuge);
  ASSERT_TRUE(region.ok()) << region.error().message;
  EXPECT_EQ((*region)->kind(), MemoryKind::kHugePage);
  EXPECT_EQ((*region)->size(), 2u << 20);
  std::ranges::fill((*region)->bytes(), std::byte{1});
}

// The kernel rounds a mapping of them up, and unmaps whole ones only.
TEST(MemoryRegion, OfAFileOfHugePagesLeavesNoneMapped) {
  const SetHugePages one(1);
  if (!one.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const int file = sealedFile(kHugePage, MFD_HUGETLB | (21u << MAP_HUGE_SHIFT));
  auto region = MemoryRegion::map(file, 0, 1000);
  ::close(file);
  ASSERT_TRUE(region.ok()) << region.error().message;
  EXPECT_EQ((*region)->size(), 1000u);
  std::byte* const memory = (*region)->bytes().data();
  memory[999] = std::byte{1};
  unsigned char there = 0;
  EXPECT_EQ(::mincore(memory, 1, &there), 0);
  *region = nullptr;
  EXPECT_EQ(::mincore(memory, 1, &there), -1) << "it is mapped still";
}

TEST(MemoryTouch, OfHugePagesSaysHowManyAreMissing) {
  const SetHugePages pages(2);
  if (!pages.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  const OwnedFd file = fileOf(10 * kMiB, kHugeTwoMiB);
  const auto refused = touchMemory(file.get(), 0, 10 * kMiB);
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(refused.error().message.starts_with("3 huge pages of 2 MiB are missing"))
      << refused.error().message;
  EXPECT_EQ(roomOf(file), 4 * kMiB) << "what was got stays";
  EXPECT_EQ(*pageBytesOf(file.get()), 2 * kMiB);
  EXPECT_EQ(touchMemory(file.get(), 0, kMiB).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hearth
