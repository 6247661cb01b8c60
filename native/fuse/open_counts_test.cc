#include "fuse/open_counts.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <random>

namespace hearth {
namespace {

OwnedFd memory(std::size_t size) {
  OwnedFd fd(memfd_create("open-counts-test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

std::map<std::uint64_t, OpenCount> all(const OpenCounts& counts) {
  std::map<std::uint64_t, OpenCount> found;
  counts.each([&](std::uint64_t node, const OpenCount& count) { found[node] = count; });
  return found;
}

TEST(OpenCounts, AreThereForTheNextAgent) {
  const OwnedFd shared = memory(1 << 20);
  {
    const auto counts = OpenCounts::map(shared);
    ASSERT_TRUE(counts.ok());
    (*counts)->set(7, {.cached = 2});
    (*counts)->set(8, {.passthrough = 1, .backingId = 5});
    (*counts)->set(9, {.cached = 1});
    (*counts)->set(9, {});
  }
  const auto next = OpenCounts::map(shared);
  ASSERT_TRUE(next.ok());
  const std::map<std::uint64_t, OpenCount> expected{{7, {.cached = 2}},
                                                    {8, {.passthrough = 1, .backingId = 5}}};
  EXPECT_EQ(all(**next), expected);
  EXPECT_FALSE((*next)->overflowed());
}

TEST(OpenCounts, AgreeWithAMapAfterManyChanges) {
  const OwnedFd shared = memory(1 << 20);
  const auto counts = OpenCounts::map(shared);
  ASSERT_TRUE(counts.ok());
  std::map<std::uint64_t, OpenCount> model;
  std::mt19937 random(1);
  for (int round = 0; round < 50000; ++round) {
    const std::uint64_t node = 2 + random() % 9000;
    const OpenCount count{.cached = static_cast<std::uint32_t>(random() % 2)};
    (*counts)->set(node, count);
    if (count.any()) {
      model[node] = count;
    } else {
      model.erase(node);
    }
  }
  EXPECT_EQ(all(**counts), model);
}

TEST(OpenCounts, SayWhenThereIsNoRoom) {
  const OwnedFd shared = memory(4096);
  const auto counts = OpenCounts::map(shared);
  ASSERT_TRUE(counts.ok());
  for (std::uint64_t node = 2; node < 1000; ++node) (*counts)->set(node, {.cached = 1});
  EXPECT_TRUE((*counts)->overflowed());
  EXPECT_GT(all(**counts).size(), 100U);
}

TEST(OpenCounts, RefuseMemoryOfAnotherFormat) {
  const OwnedFd shared = memory(8192);
  ASSERT_EQ(write(shared.get(), "something", 9), 9);
  EXPECT_EQ(OpenCounts::map(shared).code(), ErrorCode::kProtocolError);
  EXPECT_EQ(OpenCounts::map(memory(10)).code(), ErrorCode::kProtocolError);
}

}  // namespace
}  // namespace hearth
