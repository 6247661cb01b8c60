#include "memory/memory_region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "memory/testing/table_device.h"

namespace hearth {
namespace {

using testing_memory::TableDevice;

constexpr std::size_t kSize = std::size_t{8} << 20;

std::shared_ptr<MemoryRegion> ours() { return *MemoryRegion::allocate(kSize); }

TEST(MemoryRegion, HasANumberOfItsOwn) {
  const std::uint64_t first = ours()->number();
  EXPECT_NE(ours()->number(), first) << "though it may lie at the same address";
}

TEST(MemoryRegion, OfTheCallersLeavesTheMemoryToItsOwner) {
  auto bytes = std::make_shared<std::vector<std::byte>>(1000);
  const std::weak_ptr<std::vector<std::byte>> watched = bytes;
  std::shared_ptr<MemoryRegion> region = MemoryRegion::host(*bytes, bytes);
  EXPECT_EQ(region->kind(), MemoryKind::kHost);
  EXPECT_EQ(region->bytes().data(), bytes->data());
  bytes = nullptr;
  EXPECT_FALSE(watched.expired());
  EXPECT_FALSE(region->decommit()) << "it is not ours";
  region = nullptr;
  EXPECT_TRUE(watched.expired());
}

TEST(MemoryRegion, OfOurOwnGivesItsRoomBack) {
  const std::shared_ptr<MemoryRegion> region = ours();
  std::ranges::fill(region->bytes(), std::byte{7});
  EXPECT_TRUE(region->decommit());
  EXPECT_TRUE(std::ranges::all_of(region->bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

// A device that goes on with the former pages would write where nothing is read.
TEST(MemoryRegion, KeepsThePagesThatADeviceKnows) {
  const auto device = std::make_shared<TableDevice>("nic0");
  const std::shared_ptr<MemoryRegion> region = ours();
  region->bytes().front() = std::byte{7};
  ASSERT_TRUE(region->registrationWith(device).ok());
  EXPECT_FALSE(region->decommit());
  EXPECT_EQ(region->bytes().front(), std::byte{7});
}

// A file of memory, so large, which can grow and cannot shrink.
int sealedFile(off_t size, unsigned flags = 0) {
  const int file = ::memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  EXPECT_EQ(::ftruncate(file, size), 0);
  EXPECT_EQ(::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return file;
}

TEST(MemoryRegion, IsWhatOthersSeeInAFile) {
  const int file = sealedFile(8192);
  const auto first = MemoryRegion::map(file, 0, 8192);
  const auto second = MemoryRegion::map(file, 4096, 4096);
  EXPECT_EQ(MemoryRegion::map(file, 4096, 4097).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(MemoryRegion::map(file, ~0ull, 1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(MemoryRegion::map(file, 1, 4096).error().code, ErrorCode::kInvalidArgument);
  ::close(file);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->kind(), MemoryKind::kFile);
  (*first)->bytes()[5000] = std::byte{9};
  EXPECT_EQ((*second)->bytes()[5000 - 4096], std::byte{9});
  EXPECT_FALSE((*first)->decommit()) << "it is the file's";
}

// A thread that touches memory behind the end of its file ends by SIGBUS.
TEST(MemoryRegion, OfAFileThatMayShrinkIsRefused) {
  const int file = ::memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  const auto refused = MemoryRegion::map(file, 0, 4096);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("F_SEAL_SHRINK"), std::string::npos)
      << refused.error().message;
  ASSERT_EQ(::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(MemoryRegion::map(file, 0, 4096).ok());
  EXPECT_NE(::ftruncate(file, 0), 0);
  ::close(file);
  std::FILE* const named = std::tmpfile();
  ASSERT_EQ(::ftruncate(::fileno(named), 4096), 0);
  EXPECT_EQ(MemoryRegion::map(::fileno(named), 0, 4096).error().code, ErrorCode::kInvalidArgument);
  std::fclose(named);
}

// Everybody who has the file gets other pages there, at once.
TEST(MemoryRegion, OfAFileIsPunchedForAll) {
  const int file = sealedFile(16384);
  const auto first = *MemoryRegion::map(file, 0, 16384);
  const auto second = *MemoryRegion::map(file, 4096, 4096);
  ::close(file);
  std::ranges::fill(first->bytes(), std::byte{7});
  EXPECT_TRUE(first->punch(4096, 4096));
  EXPECT_EQ(second->bytes().front(), std::byte{0});
  EXPECT_EQ(first->bytes()[4095], std::byte{7});
  EXPECT_EQ(first->bytes()[8192], std::byte{7});
  ASSERT_TRUE(first->registrationWith(std::make_shared<TableDevice>("nic0")).ok());
  EXPECT_FALSE(first->punch(0, 4096)) << "a device would go on with the former page";
  EXPECT_EQ(first->bytes().front(), std::byte{7});
  EXPECT_FALSE(ours()->punch(0, 4096)) << "it is no file's";
}

TEST(MemoryRegion, OfAGpuIsOutOfReach) {
  const auto region = MemoryRegion::gpu(0x7f0000000000, 4096, nullptr);
  EXPECT_FALSE(region->isHost());
  EXPECT_TRUE(region->bytes().empty());
  EXPECT_EQ(region->address(), 0x7f0000000000u);
  EXPECT_EQ(region->size(), 4096u);
}

TEST(MemoryRegion, IsEnrolledOnceByEachDeviceThatMeetsIt) {
  const auto one = std::make_shared<TableDevice>("nic0");
  const auto two = std::make_shared<TableDevice>("nic1");
  std::shared_ptr<MemoryRegion> region = ours();
  EXPECT_EQ(region->knownTo(*one), nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto known = region->registrationWith(i % 2 == 0 ? one : two);
      EXPECT_TRUE(known.ok() && *known != nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(one->enrolled, 1);
  EXPECT_EQ(two->enrolled, 1);
  EXPECT_EQ(region->knownTo(*one), *region->registrationWith(one));
  region = nullptr;
  EXPECT_EQ(one->knownNow(), 0u) << "the device forgets it before the memory goes";
}

TEST(MemoryRegion, WhatCouldNotBeEnrolledIsTriedAgain) {
  const auto device = std::make_shared<TableDevice>("nic0");
  const std::shared_ptr<MemoryRegion> region = ours();
  device->failures = 1;
  const auto refused = region->registrationWith(device);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "nic0: no more memory may be locked");
  EXPECT_EQ(region->knownTo(*device), nullptr);
  EXPECT_TRUE(region->decommit()) << "no device knows it";
  EXPECT_TRUE(region->registrationWith(device).ok());
  EXPECT_FALSE(region->decommit());
}

}  // namespace
}  // namespace hearth
