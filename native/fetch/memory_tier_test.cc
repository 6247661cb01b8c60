#include "fetch/memory_tier.h"

#include <gtest/gtest.h>

#include <thread>

#include "fetch/testing_slots.h"
#include "fetch/testing_stuck_answer.h"

namespace hearth {
namespace {

using testing_support::lendToStuckPeer;
using testing_support::StuckAnswer;

constexpr std::size_t kBuffers = 8;

ContentKey tierKey(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return key;
}

// A file that is never read from disk: the tier only looks at its size, readers and chunks.
std::shared_ptr<FileFetch> tierFile(std::uint8_t number, std::uint32_t readers,
                                    std::uint64_t chunks) {
  auto fetch = std::make_shared<FileFetch>(
      FileReference{}, std::make_shared<KeyFetch>(tierKey(number), chunks * kChunkBytes, nullptr,
                                                  std::make_shared<LoadedChunks>()));
  fetch->shared->files.push_back(fetch);
  fetch->readers = readers;
  return fetch;
}

// Too large to be kept whole.
std::shared_ptr<FileFetch> fileWithReaders(std::uint32_t readers) {
  return tierFile(1, readers, 1000);
}

class MemoryTierTest : public testing::Test {
 protected:
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  testing_support::OwnedSlots slots{kBuffers};
  SlotStock stock{slots.all()};
  std::unique_ptr<BufferPool> pool = std::make_unique<BufferPool>(*reactor, stock, kBuffers);
  MemoryTier tier{*reactor, stock};

  // Chunks that a test leaves come back while its thread still runs.
  void TearDown() override {
    tier.clear();
    turn();
  }

  void run(Task<void> task) {
    struct Wrap {
      static Task<bool> run(Task<void> inner) {
        co_await inner;
        co_return true;
      }
    };
    reactor->runUntilComplete(Wrap::run(std::move(task)));
  }

  // Runs all that was posted to the reactor.
  void turn() {
    struct Turn {
      static Task<void> wait(Reactor& reactor) {
        co_await reactor.sleep(std::chrono::milliseconds(1));
      }
    };
    run(Turn::wait(*reactor));
  }

  Task<void> keep(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk) {
    std::vector<ChunkBuffer> buffer = co_await pool->acquire(Priority::kDemand, 1);
    tier.keep(fetch->shared, chunk, loadInto(*reactor, std::move(buffer.front()), kChunkBytes));
  }
  Task<void> keepIn(ChunkBuffer memory, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk) {
    tier.keep(fetch->shared, chunk, loadInto(*reactor, std::move(memory), kChunkBytes));
    co_return;
  }
};

TEST_F(MemoryTierTest, ReadersFindAChunkUntilItIsDropped) {
  const auto fetch = fileWithReaders(1);
  run(keep(fetch, 3));
  ASSERT_NE(fetch->loaded.find(3), nullptr);
  EXPECT_EQ(fetch->loaded.find(3)->bytes.size(), kChunkBytes);
  EXPECT_EQ(fetch->loaded.find(2), nullptr);
  tier.clear();
  turn();
  EXPECT_EQ(fetch->loaded.find(3), nullptr);
  EXPECT_EQ(stock.free(), kBuffers);
}

TEST_F(MemoryTierTest, FindsAClosedFileByItsKey) {
  auto fetch = tierFile(1, 1, 2);
  run(keep(fetch, 0));
  run(keep(fetch, 1));
  fetch.reset();
  ASSERT_NE(tier.find(tierKey(1), 1), nullptr);
  EXPECT_EQ(tier.find(tierKey(1), 2), nullptr);
  EXPECT_EQ(tier.find(tierKey(2), 1), nullptr);
  EXPECT_EQ(tier.open(tierKey(1))->find(0)->bytes.size(), kChunkBytes);
  EXPECT_EQ(tier.bytes(), 2 * kChunkBytes);
  tier.forget(tierKey(1));
  turn();
  EXPECT_EQ(tier.find(tierKey(1), 1), nullptr);
  EXPECT_EQ(tier.bytes(), 0u);
  EXPECT_EQ(stock.free(), kBuffers);
}

TEST_F(MemoryTierTest, KeptChunksCountForNoPoolAndNoOwner) {
  const auto fetch = tierFile(1, 0, 4);
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) run(keep(fetch, chunk));
  EXPECT_EQ(pool->inUse(), 0u);
  EXPECT_EQ(stock.free(), kBuffers - 4);
  struct Take {
    static Task<void> all(BufferPool& pool) {
      const std::vector<ChunkBuffer> buffers = co_await pool.acquire(Priority::kDemand, kBuffers);
    }
  };
  run(Take::all(*pool));
}

// Two files of three chunks are in memory, with room for two more chunks.
TEST_F(MemoryTierTest, EvictsWholeFiles) {
  const auto first = tierFile(1, 0, 3), second = tierFile(2, 0, 3), third = tierFile(3, 0, 3);
  for (const auto& file : {first, second, third}) {
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) run(keep(file, chunk));
  }
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(tier.find(tierKey(1), chunk), nullptr) << chunk;
    EXPECT_NE(tier.find(tierKey(2), chunk), nullptr) << chunk;
    EXPECT_NE(tier.find(tierKey(3), chunk), nullptr) << chunk;
  }
  EXPECT_EQ(tier.evictedFiles(), 1u);
}

TEST_F(MemoryTierTest, KeepsAFileThatIsUsedAgain) {
  const auto first = tierFile(1, 0, 3), second = tierFile(2, 0, 3), third = tierFile(3, 0, 3);
  for (const auto& file : {first, second}) {
    for (std::uint32_t chunk = 0; chunk < 3; ++chunk) run(keep(file, chunk));
  }
  (void)tier.open(tierKey(1));
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) run(keep(third, chunk));
  EXPECT_NE(tier.find(tierKey(1), 0), nullptr);
  EXPECT_EQ(tier.find(tierKey(2), 0), nullptr);
}

TEST_F(MemoryTierTest, KeepsAFileThatIsReadOrOnItsWay) {
  const auto isRead = tierFile(1, 1, 2), coming = tierFile(2, 0, 3), other = tierFile(3, 0, 3);
  coming->flights[2] = std::make_shared<ChunkFlight>(*reactor, nullptr);
  for (const auto& file : {isRead, coming, other}) {
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) run(keep(file, chunk));
  }
  const auto more = tierFile(4, 0, 4);
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) run(keep(more, chunk));
  EXPECT_NE(tier.find(tierKey(1), 1), nullptr);
  EXPECT_NE(tier.find(tierKey(2), 1), nullptr);
  EXPECT_EQ(tier.find(tierKey(3), 0), nullptr);
  EXPECT_EQ(tier.find(tierKey(3), 1), nullptr);
}

// A file that is kept whole may have half of the memory.
TEST_F(MemoryTierTest, APassingFileEvictsNoWholeFile) {
  const auto whole = tierFile(1, 0, kBuffers / 2), large = tierFile(2, 0, kBuffers / 2 + 1);
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk) run(keep(whole, chunk));
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2 + 1; ++chunk) run(keep(large, chunk));
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk)
    EXPECT_NE(tier.find(tierKey(1), chunk), nullptr) << chunk;
  EXPECT_EQ(tier.find(tierKey(2), 0), nullptr);
  EXPECT_NE(tier.find(tierKey(2), kBuffers / 2), nullptr);
}

// Dropping a held chunk would free no slot, and files would go for nothing.
TEST_F(MemoryTierTest, EvictsAHeldChunkLast) {
  const auto whole = tierFile(1, 0, 2), large = tierFile(2, 0, 1000);
  run(keep(whole, 0));
  run(keep(whole, 1));
  std::vector<std::shared_ptr<LoadedChunk>> held;
  for (std::uint32_t chunk = 0; chunk < kBuffers - 2; ++chunk) {
    run(keep(large, chunk));
    if (chunk < 3) held.push_back(large->loaded.find(chunk));
  }
  for (std::uint32_t chunk = 100; chunk < 103; ++chunk) run(keep(large, chunk));
  EXPECT_EQ(tier.evictedFiles(), 0u);
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk)
    EXPECT_NE(large->loaded.find(chunk), nullptr) << chunk;
}

TEST_F(MemoryTierTest, EvictsAFileWithoutReadersAtOnce) {
  const auto fetch = fileWithReaders(0);
  for (std::uint32_t chunk = 0; chunk < 4 * kBuffers; ++chunk) run(keep(fetch, chunk));
  EXPECT_EQ(tier.chunks(), kBuffers);
  EXPECT_NE(fetch->loaded.find(4 * kBuffers - 1), nullptr);
}

TEST_F(MemoryTierTest, KeepsTheChunksThatTheReaderReachesFirst) {
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < 2 * kBuffers; ++chunk) run(keep(fetch, chunk));
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk)
    EXPECT_NE(fetch->loaded.find(chunk), nullptr) << chunk;
}

TEST_F(MemoryTierTest, EvictsReadChunksBeforeUnreadOnes) {
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) run(keep(fetch, chunk));
  fetch->loaded.find(1)->taken = kChunkBytes;
  run(keep(fetch, 10));
  EXPECT_EQ(fetch->loaded.find(1), nullptr);
  EXPECT_NE(fetch->loaded.find(0), nullptr);
  EXPECT_NE(fetch->loaded.find(10), nullptr);
}

TEST_F(MemoryTierTest, TakeNowEvictsNoUnreadChunk) {
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) run(keep(fetch, chunk));
  struct Take {
    static Task<void> one(BufferPool& pool, bool& taken) {
      taken = pool.takeNow().has_value();
      co_return;
    }
  };
  bool taken = true;
  run(Take::one(*pool, taken));
  EXPECT_FALSE(taken);
  EXPECT_EQ(tier.chunks(), kBuffers);
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) fetch->loaded.find(chunk)->taken = kChunkBytes;
  run(Take::one(*pool, taken));
  EXPECT_TRUE(taken);
  EXPECT_EQ(tier.chunks(), kBuffers - 3) << "a quarter of the pool's is for readers";
}

TEST_F(MemoryTierTest, AStoppedReaderDelaysFetchingOnlyBriefly) {
  const auto began = Clock::now();
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk) run(keep(fetch, chunk));
  struct Take {
    static Task<void> all(BufferPool& pool) {
      const std::vector<ChunkBuffer> buffers =
          co_await pool.acquire(Priority::kDemand, kBuffers / 2 + 1);
    }
  };
  run(Take::all(*pool));
  EXPECT_GE(Clock::now() - began, std::chrono::milliseconds(100));
}

TEST_F(MemoryTierTest, PeersThatDoNotReadDelayFetchingOnlyBriefly) {
  const auto fetch = fileWithReaders(0);
  std::vector<std::shared_ptr<StuckAnswer>> answers;
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) {
    run(keep(fetch, chunk));
    const std::shared_ptr<LoadedChunk> loaded = fetch->loaded.find(chunk);
    ASSERT_NE(loaded, nullptr);
    answers.push_back(lendToStuckPeer(loaded));
  }
  EXPECT_EQ(tier.chunks(), kBuffers);
  // As much as an agent fetches in a second or two.
  for (std::uint32_t chunk = kBuffers; chunk < 20 * kBuffers; ++chunk) run(keep(fetch, chunk));
  // Answers gave back their buffers for all of it: else no chunk could come in.
  int released = 0;
  for (const auto& answer : answers) released += answer->released() ? 1 : 0;
  EXPECT_GE(released, 1);
}

TEST_F(MemoryTierTest, KeepsALentChunkWhileOthersCanMakeRoom) {
  const auto fetch = fileWithReaders(0);
  run(keep(fetch, 0));
  const auto answer = lendToStuckPeer(fetch->loaded.find(0), Clock::now() + std::chrono::hours(1));
  for (std::uint32_t chunk = 1; chunk < 4 * kBuffers; ++chunk) run(keep(fetch, chunk));
  EXPECT_NE(answer->now().keep, nullptr);
}

// The slot would not come back before its sender has ended.
TEST_F(MemoryTierTest, PassesOverAChunkThatIsBeingSent) {
  const auto fetch = fileWithReaders(0);
  std::vector<std::shared_ptr<StuckAnswer>> answers;
  const auto keepLent = [&](std::uint32_t chunk) {
    run(keep(fetch, chunk));
    answers.push_back(
        lendToStuckPeer(fetch->loaded.find(chunk), Clock::now() - std::chrono::hours(1)));
  };
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) keepLent(chunk);
  auto sending = LoadedChunk::sendFrom(fetch->loaded.find(0));
  keepLent(kBuffers);
  EXPECT_NE(fetch->loaded.find(0), nullptr);
  EXPECT_FALSE(answers[0]->released());
  EXPECT_TRUE(answers[1]->released());
  sending.reset();
  keepLent(kBuffers + 1);
  EXPECT_EQ(fetch->loaded.find(0), nullptr);
  EXPECT_TRUE(answers[0]->released());
}

TEST_F(MemoryTierTest, WaitsForTheSendersOfAllChunks) {
  const auto fetch = fileWithReaders(0);
  std::vector<std::shared_ptr<const void>> sending;
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) {
    run(keep(fetch, chunk));
    sending.push_back(LoadedChunk::sendFrom(fetch->loaded.find(chunk)));
  }
  bool isKept = false;
  struct Keep {
    static Task<void> run(Task<void> keeping, bool& isKept) {
      co_await keeping;
      isKept = true;
    }
  };
  spawn(Keep::run(keep(fetch, kBuffers), isKept));
  turn();
  EXPECT_FALSE(isKept);
  EXPECT_EQ(tier.chunks(), kBuffers);
  sending.clear();
  run(keep(fetch, kBuffers + 1));
  EXPECT_TRUE(isKept);
}

TEST_F(MemoryTierTest, EvictsNoMoreLentFilesThanNeeded) {
  std::vector<std::shared_ptr<StuckAnswer>> answers;
  for (std::uint8_t number = 0; number < kBuffers; ++number) {
    const auto fetch = tierFile(number, 0, 1);
    run(keep(fetch, 0));
    answers.push_back(lendToStuckPeer(fetch->loaded.find(0)));
  }
  run(keep(tierFile(100, 0, 1), 0));
  EXPECT_EQ(tier.chunks(), kBuffers);
  EXPECT_EQ(tier.evictedFiles(), 1u);
}

// The buffer of a replaced chunk serves waiters, and they may make room with other chunks of the
// same file.
TEST_F(MemoryTierTest, AReplacedChunkMayEvictOthersOfItsFile) {
  struct Take {
    static Task<void> hold(BufferPool& pool, std::size_t count, std::vector<ChunkBuffer>& into) {
      into = co_await pool.acquire(Priority::kDemand, count);
    }
  };
  const auto fetch = fileWithReaders(1);
  run(keep(fetch, 0));
  run(keep(fetch, 3));
  std::vector<ChunkBuffer> last, others, waited;
  run(Take::hold(*pool, 1, last));
  run(Take::hold(*pool, kBuffers - 3, others));
  spawn(Take::hold(*pool, 2, waited));
  fetch->readers = 0;  // from now on room may be made
  run(keepIn(std::move(last.front()), fetch, 3));
  turn();
  EXPECT_EQ(waited.size(), 2u);
  EXPECT_NE(fetch->loaded.find(3), nullptr);
}

TEST_F(MemoryTierTest, AChunkOutlivesTheCopyThatItReplaced) {
  const auto fetch = fileWithReaders(1);
  for (const std::uint32_t chunk : {7u, 7u, 0u, 1u}) run(keep(fetch, chunk));
  run(keep(fetch, 2));  // one too many: of what has gone already the trace alone is dropped
  for (const std::uint32_t chunk : {7u, 0u, 1u, 2u})
    EXPECT_NE(fetch->loaded.find(chunk), nullptr) << chunk;
}

TEST_F(MemoryTierTest, ABufferReturnsOnItsOwnThread) {
  const auto fetch = fileWithReaders(1);
  run(keep(fetch, 0));
  std::shared_ptr<LoadedChunk> held = fetch->loaded.find(0);
  tier.clear();
  std::thread([held = std::move(held)]() mutable { held.reset(); }).join();
  EXPECT_EQ(stock.free(), kBuffers - 1);  // on its way
  turn();
  EXPECT_EQ(stock.free(), kBuffers);
}

}  // namespace
}  // namespace hearth
