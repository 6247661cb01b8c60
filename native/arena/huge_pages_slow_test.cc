// Arenas of huge pages. These tests set pages of the machine apart, so they are slow, and fail
// where another program takes the pages meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "arena/arena.h"
#include "arena/arena_index.h"
#include "arena/testing/filled_arena.h"
#include "memory/testing/set_huge_pages.h"

namespace hearth {
namespace {

using testing_arena::FilledArena;
using testing_memory::SetHugePages;

constexpr std::size_t kTwoBlocks = 2 * kBlockBytes;

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

ArenaIndex::Adopted adopt(const FilledArena& before, const Arena& arena) {
  auto adopted = ArenaIndex::adopt(arena, before.indexFile());
  EXPECT_TRUE(adopted.ok()) << adopted.error().message;
  return std::move(*adopted);
}

TEST(ArenaOfHugePages, OfHugePagesTakesThemAtOnce) {
  const SetHugePages pages(4);
  if (!pages.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  ArenaOptions options = optionsOf(2, ArenaPageKind::kHuge2M);
  options.required = true;
  auto arena = arenaOf(options);
  ASSERT_NE(arena, nullptr);
  EXPECT_EQ(arena->pages().kind, ArenaPageKind::kHuge2M);
  EXPECT_EQ(arena->committedBytes(), 2 * kChunkBytes);
  EXPECT_EQ(arena->hugeBytes(), 2 * kChunkBytes);
  EXPECT_EQ(pages.free(), 0u);
  std::ranges::fill(arena->bytes(1), std::byte{5});
  EXPECT_TRUE(arena->decommit(0, 1));
  EXPECT_EQ(pages.free(), 2u);
  ASSERT_TRUE(arena->commit(0, 1).ok());
  EXPECT_TRUE(isAll(arena->bytes(0), 0));
  OwnedFd kept(::dup(arena->file().get()));
  arena = nullptr;
  const auto next = Arena::adopt(std::move(kept), {});
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_EQ((*next)->pages().kind, ArenaPageKind::kHuge2M);
  EXPECT_TRUE(isAll((*next)->bytes(1), 5));
}

TEST(ArenaOfHugePages, SaysHowManyHugePagesAreMissing) {
  const SetHugePages pages(3);
  if (!pages.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  ArenaOptions options = optionsOf(4, ArenaPageKind::kHuge2M);
  const auto other = arenaOf(options);
  EXPECT_LE(other->pages().kind, ArenaPageKind::kTransparent);
  EXPECT_NE(other->pages().reason.find("5 huge pages of 2 MiB are missing"), std::string::npos)
      << other->pages().reason;
  options.required = true;
  const auto refused = Arena::create(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfSpace);
  EXPECT_NE(refused.error().message.find("5 huge pages of 2 MiB are missing"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(pages.free(), 3u) << "those that were got are given back";
}

// Pages that go to others between two uses are an error and no SIGBUS.
TEST(ArenaOfHugePages, WhoseHugePagesWentToOthersSaysSo) {
  const SetHugePages pages(4);
  if (!pages.there()) GTEST_SKIP() << "no huge pages can be set apart here (vm.nr_hugepages)";
  ArenaOptions options = optionsOf(2, ArenaPageKind::kHuge2M);
  options.required = true;
  const auto arena = arenaOf(options);
  ASSERT_NE(arena, nullptr);
  ASSERT_TRUE(arena->decommit(1, 1));
  pages.setAll(0);
  EXPECT_EQ(arena->commit(1, 1).code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(isAll(arena->bytes(0), 0)) << "the others stay";
}

// The probe takes a page for a moment, so it waits for tests that count pages.
TEST(ArenaPages, AreNeverBetterThanAskedFor) {
  const SetHugePages pages(0);
  for (const auto best : {ArenaPageKind::kSmall, ArenaPageKind::kTransparent,
                          ArenaPageKind::kHuge2M, ArenaPageKind::kHuge1G}) {
    const ArenaPages got = probeArenaPages(best);
    EXPECT_LE(got.kind, best);
    if (got.kind < best) {
      EXPECT_FALSE(got.reason.empty()) << arenaPageKindName(got.kind);
    }
  }
}

// Pages of 1 GiB are replaced whole: what lies in one with such a slot goes with it.
TEST(ArenaIndexOfHugePages, QuarantinesWholePages) {
  const SetHugePages pages(2, "1048576kB");
  if (!pages.there()) GTEST_SKIP() << "no huge pages of 1 GiB can be set apart here";
  constexpr std::size_t kPageSlots = (1ULL << 30) / kChunkBytes;
  FilledArena before = FilledArena::create(2 * kPageSlots + 3, ArenaPageKind::kHuge1G);
  ASSERT_EQ(before.arena->pages().kind, ArenaPageKind::kHuge1G) << before.arena->pages().reason;
  ASSERT_EQ(before.arena->slots(), 2 * kPageSlots) << "whole pages";
  before.fill(1, FilledArena::keyOf(1), 0, kTwoBlocks);
  before.fill(kPageSlots, FilledArena::keyOf(1), 1, kTwoBlocks);
  before.index->beginFill(5);
  const auto arena = before.adoptedArena();
  const auto [index, findings] = adopt(before, *arena);
  ASSERT_EQ(findings.valid.size(), 1u);
  EXPECT_EQ(findings.valid.front().slot, kPageSlots);
  EXPECT_EQ(findings.quarantined, kPageSlots);
  // The process before has ended, and its mapping with it.
  before.arena = nullptr;
  EXPECT_EQ(index->releaseQuarantine(*arena), 0u);
  EXPECT_EQ(index->state(1), SlotState::kFree);
  EXPECT_EQ(arena->bytes(1).front(), std::byte{0});
  EXPECT_TRUE(index->verify(kPageSlots, arena->bytes(kPageSlots)));
}

}  // namespace
}  // namespace hearth
