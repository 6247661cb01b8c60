#include "fetch/chunk_retention.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

constexpr std::size_t kBuffers = 8;

// A file that is never read from disk: retention only looks at its readers and its chunks.
std::shared_ptr<FileFetch> fileWithReaders(std::uint32_t readers) {
  auto fetch = std::make_shared<FileFetch>(FileReference{}, std::make_shared<KeyFetch>(nullptr));
  fetch->shared->files.push_back(fetch);
  fetch->readers = readers;
  return fetch;
}

class ChunkRetentionTest : public testing::Test {
 protected:
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::unique_ptr<BufferPool> pool = std::move(*BufferPool::create(*reactor, kBuffers));
  ChunkRetention retention{*reactor, *pool};

  // What a test leaves comes back to the pool while its thread still runs.
  void TearDown() override {
    retention.clear();
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

  // What was posted to the reactor has run afterwards.
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
    retention.keep(fetch->shared, chunk,
                   loadInto(*reactor, std::move(buffer.front()), kChunkBytes));
  }
  Task<void> keepIn(ChunkBuffer memory, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk) {
    retention.keep(fetch->shared, chunk, loadInto(*reactor, std::move(memory), kChunkBytes));
    co_return;
  }
};

TEST_F(ChunkRetentionTest, ReadersFindWhatCameInUntilItIsDropped) {
  const auto fetch = fileWithReaders(1);
  run(keep(fetch, 3));
  ASSERT_NE(fetch->loaded.find(3), nullptr);
  EXPECT_EQ(fetch->loaded.find(3)->bytes.size(), kChunkBytes);
  EXPECT_EQ(fetch->loaded.find(2), nullptr);
  retention.clear();
  turn();
  EXPECT_EQ(fetch->loaded.find(3), nullptr);
  EXPECT_EQ(pool->inUse(), 0u);
}

TEST_F(ChunkRetentionTest, WhatHasNoReaderMakesRoomAtOnce) {
  const auto fetch = fileWithReaders(0);
  for (std::uint32_t chunk = 0; chunk < 4 * kBuffers; ++chunk) run(keep(fetch, chunk));
  EXPECT_LE(retention.size(), kBuffers / 2);
  EXPECT_NE(fetch->loaded.find(4 * kBuffers - 1), nullptr);
}

TEST_F(ChunkRetentionTest, KeepsTheChunksThatTheReaderComesToFirst) {
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) run(keep(fetch, chunk));
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk)
    EXPECT_NE(fetch->loaded.find(chunk), nullptr) << chunk;
}

TEST_F(ChunkRetentionTest, WhatItsReaderHadGoesBeforeWhatIsStillToBeRead) {
  const auto fetch = fileWithReaders(1);
  for (std::uint32_t chunk = 0; chunk < kBuffers / 2; ++chunk) run(keep(fetch, chunk));
  fetch->loaded.find(1)->taken = kChunkBytes;
  run(keep(fetch, 10));
  EXPECT_EQ(fetch->loaded.find(1), nullptr);
  EXPECT_NE(fetch->loaded.find(0), nullptr);
  EXPECT_NE(fetch->loaded.find(10), nullptr);
}

TEST_F(ChunkRetentionTest, AReaderThatStoppedHoldsUpFetchingForAMomentOnly) {
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

// Answers to peers that never read them.
class StuckAnswer final : public LentPayload {
 public:
  explicit StuckAnswer(std::shared_ptr<LoadedChunk> loaded) : loaded_(std::move(loaded)) {}
  Piece now() override { return {loaded_->bytes, loaded_}; }
  Task<Status> load() override { co_return Status(); }
  void release() override { loaded_.reset(); }

 private:
  std::shared_ptr<LoadedChunk> loaded_;
};

TEST_F(ChunkRetentionTest, PeersThatDoNotReadHoldUpFetchingForAMomentOnly) {
  const auto fetch = fileWithReaders(0);
  std::vector<std::shared_ptr<StuckAnswer>> answers;
  for (std::uint32_t chunk = 0; chunk < kBuffers; ++chunk) {
    run(keep(fetch, chunk));
    const std::shared_ptr<LoadedChunk> loaded = fetch->loaded.find(chunk);
    ASSERT_NE(loaded, nullptr);
    answers.push_back(std::make_shared<StuckAnswer>(loaded));
    loaded->lend(answers.back(), Clock::now());
  }
  EXPECT_EQ(pool->inUse(), kBuffers);
  const auto began = Clock::now();
  // As much as an agent fetches in a second or two.
  for (std::uint32_t chunk = kBuffers; chunk < 20 * kBuffers; ++chunk) run(keep(fetch, chunk));
  EXPECT_LE(Clock::now() - began, std::chrono::seconds(5));
}

TEST_F(ChunkRetentionTest, WhatIsBeingSentStaysWhileOthersCanMakeRoom) {
  const auto fetch = fileWithReaders(0);
  run(keep(fetch, 0));
  const auto answer = std::make_shared<StuckAnswer>(fetch->loaded.find(0));
  fetch->loaded.find(0)->lend(answer, Clock::now() + std::chrono::hours(1));
  for (std::uint32_t chunk = 1; chunk < 4 * kBuffers; ++chunk) run(keep(fetch, chunk));
  EXPECT_NE(answer->now().keep, nullptr);
}

// The buffer of the chunk that is replaced serves who waits for buffers, and that may make room
// with other chunks of the same file.
TEST_F(ChunkRetentionTest, AChunkThatComesInAgainMakesRoomWithOthersOfItsFile) {
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

TEST_F(ChunkRetentionTest, WhatCameInAgainOutlivesWhatItReplaced) {
  const auto fetch = fileWithReaders(1);
  for (const std::uint32_t chunk : {7u, 7u, 0u, 1u}) run(keep(fetch, chunk));
  run(keep(fetch, 2));  // one too many: of what has gone already the trace alone is dropped
  for (const std::uint32_t chunk : {7u, 0u, 1u, 2u})
    EXPECT_NE(fetch->loaded.find(chunk), nullptr) << chunk;
}

TEST_F(ChunkRetentionTest, ABufferComesBackOnItsOwnThreadWhoeverHeldItLast) {
  const auto fetch = fileWithReaders(1);
  run(keep(fetch, 0));
  std::shared_ptr<LoadedChunk> held = fetch->loaded.find(0);
  retention.clear();
  std::thread([held = std::move(held)]() mutable { held.reset(); }).join();
  EXPECT_EQ(pool->inUse(), 1u);  // on its way
  turn();
  EXPECT_EQ(pool->inUse(), 0u);
}

}  // namespace
}  // namespace hearth
