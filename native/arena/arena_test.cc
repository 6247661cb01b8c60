#include "arena/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "arena/testing/made_topology.h"
#include "memory/testing/table_device.h"

namespace hearth {
namespace {

using testing_arena::MadeTopology;
using Preference = MadeTopology::Preference;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

ArenaOptions optionsOf(std::uint64_t slots, ArenaPageKind best = ArenaPageKind::kTransparent) {
  ArenaOptions options;
  options.bytes = slots * kChunkBytes;
  options.best = best;
  return options;
}

std::unique_ptr<Arena> arenaOf(const ArenaOptions& options) {
  auto arena = Arena::create(options);
  EXPECT_TRUE(arena.ok()) << arena.error().message;
  return arena.ok() ? std::move(*arena) : nullptr;
}

bool isAll(std::span<const std::byte> bytes, int value) {
  return std::ranges::all_of(bytes,
                             [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

TEST(Arena, IsWholeSlotsOfOneSealedFile) {
  ArenaOptions options = optionsOf(3);
  options.bytes += 1000;
  const auto arena = arenaOf(options);
  EXPECT_EQ(arena->slots(), 3u);
  EXPECT_EQ(arena->identity().bytes, 3 * kChunkBytes);
  EXPECT_NE(::ftruncate(arena->file().get(), 0), 0);
  EXPECT_NE(::ftruncate(arena->file().get(), 100 * kMiB), 0);
  EXPECT_EQ(arena->committedBytes(), 0u) << "room is taken by those who use it";
  ASSERT_TRUE(arena->commit(0, 3).ok());
  EXPECT_EQ(arena->committedBytes(), 3 * kChunkBytes);
  std::ranges::fill(arena->bytes(1), std::byte{7});
  const MemorySlice slice = arena->slice(1, 1000, nullptr);
  EXPECT_EQ(slice.bytes().data(), arena->bytes(1).data());
  EXPECT_TRUE(isAll(slice.bytes(), 7));
  EXPECT_TRUE(isAll(arena->bytes(0), 0));
  EXPECT_TRUE(isAll(arena->bytes(2), 0));
  EXPECT_EQ(Arena::create(optionsOf(0)).code(), ErrorCode::kInvalidArgument);
}

TEST(Arena, LiesInLargePagesWhereTheKernelMakesThem) {
  const auto arena = arenaOf(optionsOf(4));
  if (arena->pages().kind != ArenaPageKind::kTransparent) GTEST_SKIP() << arena->pages().reason;
  EXPECT_TRUE(transparentPagesWork().ok());
  ASSERT_TRUE(arena->commit(0, 4).ok());
  // Memory may have no large page left, which is no error.
  EXPECT_LE(arena->hugeBytes(), 4 * kChunkBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->bytes(0).data()) % (2 * kMiB), 0u);
  EXPECT_TRUE(isAll(arena->bytes(3), 0));
}

TEST(Arena, OfSmallPagesSaysWhy) {
  const auto arena = arenaOf(optionsOf(1, ArenaPageKind::kSmall));
  EXPECT_EQ(arena->pages().kind, ArenaPageKind::kSmall);
  EXPECT_EQ(arena->pages().reason, "small pages are wanted");
  EXPECT_TRUE(arena->commit(0, 1).ok());
}

TEST(Arena, GivesTheRoomOfSlotsBack) {
  const auto arena = arenaOf(optionsOf(3));
  ASSERT_TRUE(arena->commit(0, 3).ok());
  for (std::size_t slot = 0; slot < 3; ++slot) std::ranges::fill(arena->bytes(slot), std::byte{9});
  EXPECT_TRUE(arena->decommit(1, 1));
  EXPECT_EQ(arena->committedBytes(), 2 * kChunkBytes);
  ASSERT_TRUE(arena->commit(0, 3).ok());
  EXPECT_TRUE(isAll(arena->bytes(0), 9)) << "what is committed keeps its bytes";
  EXPECT_TRUE(isAll(arena->bytes(1), 0));
  EXPECT_TRUE(isAll(arena->bytes(2), 9));
}

// A device that goes on with the former pages would write where nothing is read.
TEST(Arena, KeepsThePagesThatADeviceKnows) {
  const auto device = std::make_shared<testing_memory::TableDevice>("nic0");
  const auto arena = arenaOf(optionsOf(2));
  ASSERT_TRUE(arena->commit(0, 2).ok());
  arena->bytes(1).front() = std::byte{7};
  ASSERT_TRUE(arena->regions().front().memory->registrationWith(device).ok());
  EXPECT_FALSE(arena->decommit(1, 1));
  EXPECT_EQ(arena->bytes(1).front(), std::byte{7});
}

// A transfer that still uses a slot's former pages sees these, and not the slot's new contents.
TEST(Arena, FormerPagesAreOfNoSlot) {
  const auto arena = arenaOf(optionsOf(1));
  ASSERT_TRUE(arena->commit(0, 1).ok());
  std::ranges::fill(arena->bytes(0), std::byte{1});
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  iovec given{arena->bytes(0).data(), 4096};
  ASSERT_EQ(::vmsplice(ends[1], &given, 1, 0), 4096) << "the pipe refers to the page";
  ASSERT_TRUE(arena->decommit(0, 1) && arena->commit(0, 1).ok());
  std::ranges::fill(arena->bytes(0), std::byte{2});
  std::vector<std::byte> read(4096);
  ASSERT_EQ(::read(ends[0], read.data(), read.size()), 4096);
  EXPECT_TRUE(isAll(read, 1));
  EXPECT_TRUE(isAll(arena->bytes(0), 2));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Arena, HasARegionForEachNode) {
  const MadeTopology topology({0, 2, 3});
  ArenaOptions options = optionsOf(8);
  options.topology = &topology;
  const auto arena = arenaOf(options);
  ASSERT_EQ(arena->regions().size(), 3u);
  EXPECT_EQ(arena->regions()[1].node, 2);
  EXPECT_EQ(arena->regions()[1].firstSlot, 3u);
  EXPECT_EQ(arena->regions()[2].slots, 2u) << "the rest";
  EXPECT_EQ(topology.preferences, (std::vector<Preference>{{0, 3 * kChunkBytes, 0},
                                                           {3 * kChunkBytes, 3 * kChunkBytes, 2},
                                                           {6 * kChunkBytes, 2 * kChunkBytes, 3}}));
  ASSERT_TRUE(arena->commit(0, 8).ok());
  for (std::size_t slot = 0; slot < 8; ++slot)
    std::ranges::fill(arena->bytes(slot), static_cast<std::byte>(slot));
  for (std::size_t slot = 0; slot < 8; ++slot)
    EXPECT_TRUE(isAll(arena->bytes(slot), static_cast<int>(slot)));
  EXPECT_EQ(&arena->regionOf(5), &arena->regions()[1]);
  EXPECT_TRUE(arena->decommit(0, 8)) << "in all regions";
  EXPECT_EQ(arena->pages().unplaced, "");

  const MadeTopology many({0, 1, 2, 3});
  ArenaOptions small = optionsOf(2);
  small.topology = &many;
  EXPECT_EQ(arenaOf(small)->regions().size(), 2u) << "none without a slot";
}

TEST(Arena, SaysWhyItsPagesAreNotOnTheirNodes) {
  MadeTopology topology({0, 1});
  topology.refusal = Error{ErrorCode::kPermissionDenied, "mbind: not permitted"};
  ArenaOptions options = optionsOf(2);
  options.topology = &topology;
  const auto arena = arenaOf(options);
  EXPECT_EQ(arena->pages().unplaced, "mbind: not permitted");
  EXPECT_TRUE(arena->commit(0, 2).ok());
}

TEST(Arena, OutlivesWhoMadeIt) {
  auto first = arenaOf(optionsOf(2));
  ASSERT_TRUE(first->commit(0, 2).ok());
  std::ranges::fill(first->bytes(1), std::byte{5});
  const ArenaIdentity identity = first->identity();
  OwnedFd kept(::dup(first->file().get()));
  first = nullptr;
  const auto next = Arena::adopt(std::move(kept), {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ((*next)->identity(), identity);
  EXPECT_TRUE(isAll((*next)->bytes(1), 5));
  EXPECT_NE(arenaOf(optionsOf(2))->identity(), identity);
}

TEST(Arena, IsNotMadeOfWhatIsNone) {
  OwnedFd odd(::memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(odd.get(), 1000), 0);
  ASSERT_EQ(::fcntl(odd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_EQ(Arena::adopt(std::move(odd), {}).code(), ErrorCode::kInvalidArgument);
  OwnedFd open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), kChunkBytes), 0);
  EXPECT_EQ(Arena::adopt(std::move(open), {}).code(), ErrorCode::kInvalidArgument) << "not sealed";
  EXPECT_FALSE(Arena::adopt(OwnedFd(), {}).ok());
}

TEST(Arena, IsTouchedByWhomeverIsToBeCharged) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> asked;
  ArenaOptions options = optionsOf(4);
  options.touch = [&](int, std::uint64_t offset, std::uint64_t bytes) -> Result<TouchedMemory> {
    asked.emplace_back(offset, bytes);
    return Error{ErrorCode::kOutOfSpace, "no more"};
  };
  const auto arena = arenaOf(options);
  EXPECT_EQ(arena->commit(1, 2).code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(asked,
            (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{kChunkBytes, 2 * kChunkBytes}}));
}

}  // namespace
}  // namespace hearth
