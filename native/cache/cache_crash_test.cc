// The invariant of the residency log: whatever it claims after a crash at any instant is in the
// files.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/testing/sanitizers.h"
#include "cache/cache_testing.h"
#include "cache/residency_log_version1.h"
#include "cache/residency_replay.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

constexpr std::uint64_t kKeys = 12;
constexpr std::uint64_t kBudget = 400 << 10;
constexpr std::uint64_t kLargeSeed = 1;
// Sanitizers take their time: there the crash comes after every fifth operation only.
constexpr std::uint64_t kStride = kSanitized ? 5 : 1;

// Small files, so that a run is short; one key of two chunks, of which only the short one is
// written often.
std::uint64_t sizeOf(std::uint64_t n) { return n == 0 ? kChunkBytes + 9000 : 5000 + 9000 * n; }
std::uint64_t budget() { return kBudget + kChunkBytes; }

CacheTuning smallGroups() {
  CacheTuning tuning;
  tuning.commitBytes = 100 << 10;
  tuning.commitDelay = std::chrono::milliseconds(1);
  tuning.mostBytes = 200 << 10;
  tuning.compactFromBytes = 900;
  return tuning;
}

class CacheCrashTest : public testing::Test {
 protected:
  std::unique_ptr<ContentCache> open(CrashFileSystem& files) {
    auto task = openContentCache({{"/cache", budget(), 0}}, {{*reactor, files}}, smallGroups());
    auto opened = reactor->runUntilComplete(std::move(task));
    EXPECT_TRUE(opened.ok() || files.crashed()) << opened.error().message;
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  void close(std::unique_ptr<ContentCache> cache) {
    if (cache) reactor->runUntilComplete(cache->close());
  }

  // Keys and chunks whose rot was reported as noted.
  using Noted = std::set<std::pair<std::uint64_t, std::uint32_t>>;

  // A random life of a cache; ends early, with errors, when the disk goes away.
  static Task<void> live(ContentCache& cache, CrashFileSystem& files, std::uint64_t seed, int steps,
                         Noted& noted) {
    std::mt19937_64 random(seed);
    for (int step = 0; step < steps && !files.crashed(); ++step) {
      // The large key costs time: it takes part in few lives.
      const std::uint64_t n = seed == kLargeSeed ? random() % kKeys : 1 + random() % (kKeys - 1);
      const ContentKey key = keyOf(n);
      switch (random() % 8) {
        case 0: {
          (void)co_await cache.evict(key);
          break;
        }
        case 1: {
          // Bad bytes are noticed, and the chunk is written again.
          const auto file = cache.find(key);
          const std::uint32_t chunk = n == 0 ? 1 : 0;
          if (!file || !holds(*file, chunk)) break;
          noted.erase({n, chunk});
          files.corrupt(file->path(), chunk * kChunkBytes);
          EXPECT_FALSE(holds(*file, chunk));
          if (random() % 2 == 0) {
            const Status claimed = co_await file->claimed();
            if (claimed.ok()) noted.insert({n, chunk});
          }
          (void)co_await writeWhole(file, chunk);
          break;
        }
        case 2: {
          const auto file = cache.find(key);
          if (file) (void)co_await file->claimed();
          break;
        }
        default: {
          auto acquired = co_await cache.acquire(key, sizeOf(n), false);
          if (!acquired.ok()) break;
          const std::uint32_t chunk = n != 0 ? 0 : random() % 16 == 0 ? 0 : 1;
          (void)co_await writeWhole(*acquired, chunk);
        }
      }
    }
  }

  // The one byte that live() spoils is the only wrong one.
  static bool rotten(CrashFileSystem& files, CachedFile& file, std::uint32_t chunk) {
    std::vector<std::byte> expected = chunkData(file.key(), file.size(), chunk);
    expected[0] ^= std::byte{0xff};
    const auto opened = files.openForReading(file.path());
    const auto mapped = (*opened)->map(file.size());
    return std::equal(expected.begin(), expected.end(), *mapped + chunk * kChunkBytes);
  }

  // Everything that is resident after an open is what was written.
  void expectTrue(CrashFileSystem& files, const std::string& when, const Noted& noted = {}) {
    auto cache = open(files);
    ASSERT_NE(cache, nullptr) << when;
    for (std::uint64_t n = 0; n < kKeys; ++n) {
      const auto file = cache->find(keyOf(n));
      if (!file) continue;
      for (std::uint32_t chunk = 0; chunk < file->chunkCount(); ++chunk) {
        if (!file->resident(chunk)) continue;
        // Rot comes back where the disk went away before it was noted, and nowhere else.
        const bool excused = !noted.contains({n, chunk}) && rotten(files, *file, chunk);
        ASSERT_TRUE(excused || holds(*file, chunk)) << when << ", key " << n << " chunk " << chunk;
      }
    }
    EXPECT_LE(cache->statistics().directories[0].usedBytes, budget());
    close(std::move(cache));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
};

// A disk on which a cache has lived for a while and was closed.
TEST_F(CacheCrashTest, ClaimsAreTrueAfterACrashAtEveryInstant) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    CrashFileSystem original;
    close(open(original));
    const auto start = original.killCopy();
    std::uint64_t crashes = 0;
    for (std::uint64_t at = 0;; at += kStride) {
      const auto files = start->killCopy();
      files->crashAfter(at);
      auto cache = open(*files);
      Noted noted;
      if (cache) {
        reactor->runUntilComplete(live(*cache, *files, seed, 45, noted));
        close(std::move(cache));
      }
      const std::string when =
          "seed " + std::to_string(seed) + ", crash after " + std::to_string(at);
      for (std::uint64_t fate = 0; fate < 2; ++fate) {
        auto survivor = files->crashCopy(seed * 1000 + at * 2 + fate);
        // And the disk may crash again while it recovers, and once more while the next cache lives.
        survivor->crashAfter(at % 17);
        close(open(*survivor));
        survivor = survivor->crashCopy(at + fate);
        survivor->crashAfter(20 + at % 50);
        Noted stillNoted = noted;
        if (auto again = open(*survivor)) {
          reactor->runUntilComplete(live(*again, *survivor, seed + at, 10, stillNoted));
          close(std::move(again));
        }
        survivor = survivor->crashCopy(at + fate + 1);
        expectTrue(*survivor, when + ", fate " + std::to_string(fate), stillNoted);
        if (HasFatalFailure()) return;
      }
      if (!files->crashed()) break;
      ++crashes;
    }
    EXPECT_GT(crashes, 70u / kStride);
  }
}

// Where the first record of this type stands in the log.
std::uint64_t placeOf(Reactor& reactor, CrashFileSystem& files, RecordType type) {
  const auto info = reactor.runUntilComplete(files.info("/cache/residency.log"));
  const auto log = files.openForReading("/cache/residency.log");
  const std::span<const std::byte> bytes(*(*log)->map(info->size), info->size);
  std::uint64_t at = kLogHeaderBytes;
  for (;;) {
    const ParsedRecord parsed = parseRecord(bytes.subspan(at));
    if (parsed.kind != ParsedRecord::Kind::kRecord) return 0;
    if (parsed.record.type == type) return at;
    at += parsed.bytes;
  }
}

TEST_F(CacheCrashTest, ClaimsDoNotComeBackWhenTheirDropRots) {
  CrashFileSystem files;
  const auto openPlain = [&] {
    auto task = ContentCache::open({{"/cache", budget(), 0}}, {{*reactor, files}});
    auto opened = reactor->runUntilComplete(std::move(task));
    EXPECT_TRUE(opened.ok());
    return std::move(*opened);
  };
  auto cache = openPlain();
  ASSERT_TRUE(reactor->runUntilComplete(fill(*cache, keyOf(0), sizeOf(0))).ok());
  ASSERT_TRUE(reactor->runUntilComplete(cache->find(keyOf(0))->claimed()).ok());
  ASSERT_TRUE(reactor->runUntilComplete(cache->evict(keyOf(0))).ok());
  {
    // It is made again, of the same size, with a hole where its first chunk was.
    auto file = reactor->runUntilComplete(cache->acquire(keyOf(0), sizeOf(0), false));
    ASSERT_TRUE(reactor->runUntilComplete(writeWhole(*file, 1)).ok());
    ASSERT_TRUE(reactor->runUntilComplete((*file)->claimed()).ok());
  }
  ASSERT_TRUE(reactor->runUntilComplete(fill(*cache, keyOf(2), sizeOf(2))).ok());
  close(std::move(cache));
  const std::uint64_t drop = placeOf(*reactor, files, RecordType::kDrop);
  ASSERT_NE(drop, 0u);
  files.corrupt("/cache/residency.log", drop + 20);
  // Doubt outlives starts in which there was no time to look.
  for (int start = 0; start < 3; ++start) {
    cache = openPlain();
    EXPECT_FALSE(cache->find(keyOf(0)) && cache->find(keyOf(0))->resident(0)) << start;
    if (start == 0) {
      const std::vector<std::string> notes = cache->recoveryNotes();
      ASSERT_FALSE(notes.empty());
      const std::string& note = notes.front();
      EXPECT_NE(note.find("at offset " + std::to_string(drop)), std::string::npos) << note;
      EXPECT_GT(cache->statistics().lostLogBytes, 0u);
    }
    if (start < 2) close(std::move(cache));
  }
  struct Waiter {
    static Task<void> settled(ContentCache& of, Reactor& reactor) {
      while (of.statistics().doubtfulFiles != 0)
        co_await reactor.sleep(std::chrono::milliseconds(1));
    }
  };
  reactor->runUntilComplete(Waiter::settled(*cache, *reactor));
  const auto file = cache->find(keyOf(0));
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(file->resident(0));
  EXPECT_TRUE(file->resident(1) && holds(*file, 1));
  const auto other = cache->find(keyOf(2));
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(other->complete() && holds(*other, 0));
  close(std::move(cache));
}

// The cache reads and rewrites a log of Hearth 0.1 and keeps its files.
TEST_F(CacheCrashTest, ALogOfVersion1IsTakenOver) {
  CrashFileSystem files;
  auto cache = open(files);
  for (const auto& [n, size] : {std::pair{2u, 200000u}, std::pair{4u, 1u}})
    ASSERT_TRUE(reactor->runUntilComplete(fill(*cache, keyOf(n), size)).ok());
  close(std::move(cache));
  const std::vector<std::byte> old = bytesOfHex(kVersion1Log);
  const auto replace = [&]() -> Task<Status> {
    auto file = co_await files.open("/cache/residency.log", {.write = true});
    Status done = co_await (*file)->truncate(old.size());
    if (done.ok()) done = co_await (*file)->writeAt(old, 0);
    if (done.ok()) done = co_await (*file)->syncData();
    co_return done;
  };
  ASSERT_TRUE(reactor->runUntilComplete(replace()).ok());
  for (int round = 0; round < 2; ++round) {
    cache = open(files);
    ASSERT_NE(cache, nullptr);
    for (const std::uint64_t n : {2, 4}) {
      const auto file = cache->find(keyOf(n));
      ASSERT_NE(file, nullptr) << n;
      EXPECT_TRUE(file->complete() && holds(*file, 0)) << n;
    }
    EXPECT_EQ(cache->find(keyOf(1)), nullptr);
    EXPECT_EQ(cache->find(keyOf(3)), nullptr);
    close(std::move(cache));
    const auto log = files.openForReading("/cache/residency.log");
    EXPECT_EQ((*(*log)->map(12))[8], std::byte{2});
  }
}

TEST_F(CacheCrashTest, AKilledProcessLosesNothingThatWasClaimed) {
  CrashFileSystem files;
  auto cache = open(files);
  ASSERT_NE(cache, nullptr);
  for (std::uint64_t n = 1; n < 5; ++n) {
    ASSERT_TRUE(reactor->runUntilComplete(fill(*cache, keyOf(n), sizeOf(n))).ok());
  }
  for (std::uint64_t n = 1; n < 5; ++n) {
    const auto file = cache->find(keyOf(n));
    ASSERT_TRUE(reactor->runUntilComplete(file->claimed()).ok());
  }
  for (const bool power : {false, true}) {
    const auto survivor = power ? files.crashCopy(7) : files.killCopy();
    auto reopened = open(*survivor);
    ASSERT_NE(reopened, nullptr);
    for (std::uint64_t n = 1; n < 5; ++n) {
      const auto file = reopened->find(keyOf(n));
      ASSERT_NE(file, nullptr) << n;
      EXPECT_TRUE(file->complete());
      EXPECT_TRUE(holds(*file, 0));
    }
    close(std::move(reopened));
  }
  close(std::move(cache));
}

TEST_F(CacheCrashTest, AChunkThatWasFoundBadDoesNotComeBack) {
  CrashFileSystem files;
  auto cache = open(files);
  ASSERT_NE(cache, nullptr);
  ASSERT_TRUE(reactor->runUntilComplete(fill(*cache, keyOf(3), sizeOf(3))).ok());
  {
    const auto file = cache->find(keyOf(3));
    ASSERT_TRUE(reactor->runUntilComplete(file->claimed()).ok());
    files.corrupt(file->path(), 7);
    ASSERT_FALSE(holds(*file, 0));
    // No writer writes it again; whoever asks what is claimed is answered when the log knows.
    ASSERT_TRUE(reactor->runUntilComplete(file->claimed()).ok());
  }
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto survivor = seed == 0 ? files.killCopy() : files.crashCopy(seed);
    auto again = open(*survivor);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->residentBytes(keyOf(3)), 0u) << seed;
    close(std::move(again));
  }
  close(std::move(cache));
}

}  // namespace
}  // namespace hearth
