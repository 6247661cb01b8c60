#include "cache/eviction_candidates.h"

#include <gtest/gtest.h>

#include "base/testing/moved_clock.h"
#include "cache/cache_core.h"
#include "cache/cache_testing.h"
#include "cache/open_cache_file.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

constexpr std::chrono::hours kAhead{24};

// Files that are only known, on no disk.
class EvictionCandidatesTest : public testing::Test {
 protected:
  EvictionCandidatesTest() {
    core->directories.push_back(std::make_shared<CacheDirectory>(
        CacheDirectoryOptions{"/cache", 1u << 30, 0}, core->shards, 0, core->index, CacheTuning()));
  }
  // Used now, and as much as a dataset that is used every day: its time lies ahead.
  std::shared_ptr<CacheEntry> add(bool much) {
    moveClock(std::chrono::milliseconds(1));
    auto entry =
        std::make_shared<CacheEntry>(keyOf(count_++), kAllocationBytes, directory(), false);
    entry->touch(wallClockMs());
    if (much) entry->noteClusterUse(wallClockMs() + std::chrono::milliseconds(kAhead).count());
    entry->charged = kAllocationBytes;
    EXPECT_TRUE(core->index.insert(entry));
    directory().noteCreated(entry);
    return entry;
  }
  CacheDirectory& directory() { return *core->directories.front(); }
  EvictionCandidates& candidates() {
    return directory().candidates(EvictionCandidates::Order::kByUse);
  }
  // The next one to go, as by who needs room for one file.
  std::shared_ptr<CacheEntry> next() {
    candidates().begin();
    std::shared_ptr<CacheEntry> entry = candidates().next();
    if (entry == nullptr && candidates().look()) entry = candidates().next();
    return entry;
  }
  void evict(const std::shared_ptr<CacheEntry>& entry) {
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(core->index.beginEviction(entry), EvictOutcome::kEvicted);
    core->index.erase(entry);
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::shared_ptr<CacheCore> core =
      std::make_shared<CacheCore>(std::vector<ShardContext>{{*reactor, files}});

 private:
  std::uint64_t count_ = 0;
};

// As many looks as evictions of everything one look finds: an agent that is alone has always paid
// this.
TEST_F(EvictionCandidatesTest, WhatIsUsedMuchIsLookedThroughNoMoreOften) {
  constexpr std::size_t kTurns = 2 * EvictionCandidates::kFound;
  for (std::size_t n = 0; n < 3 * EvictionCandidates::kFound; ++n) add(true);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    evict(next());
    add(true);
  }
  EXPECT_EQ(candidates().looks(), 2u);
}

TEST_F(EvictionCandidatesTest, NorWhenWhatComesIsUsedLess) {
  constexpr std::size_t kTurns = 2 * EvictionCandidates::kFound;
  for (std::size_t n = 0; n < 3 * EvictionCandidates::kFound; ++n) add(true);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    evict(next());
    add(false);
  }
  EXPECT_LE(candidates().looks(), 2u);
}

TEST_F(EvictionCandidatesTest, WhatWasMadeSinceStandsWhereItBelongs) {
  const auto first = add(false);
  add(true);
  add(true);
  EXPECT_EQ(next(), first);
  evict(first);
  const auto second = add(false);
  const auto third = add(false);
  EXPECT_EQ(next(), second);
  evict(second);
  EXPECT_EQ(next(), third);
  EXPECT_EQ(candidates().looks(), 1u);
}

TEST_F(EvictionCandidatesTest, WhatWasMadeSinceAndIsInUseComesWhenItIsNot) {
  const auto first = add(false);
  const auto much = add(true);
  add(true);
  ASSERT_EQ(next(), first);
  evict(first);
  const auto second = add(false);
  std::shared_ptr<OpenCacheFile> reader = OpenCacheFile::open(*core, second);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(next(), much);
  reader.reset();
  EXPECT_EQ(next(), second);
}

}  // namespace
}  // namespace hearth
