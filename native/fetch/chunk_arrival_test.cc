#include "fetch/chunk_arrival.h"

#include <gtest/gtest.h>

#include <optional>

#include "fetch/buffer_pool.h"
#include "fetch/testing_slots.h"
#include "fetch/testing_stuck_answer.h"

namespace hearth {
namespace {

using testing_support::lendToStuckPeer;

constexpr std::size_t kPart = kChunkBytes / 2;

struct ChunkArrivalTest : testing::Test {
  void SetUp() override { runOnReactor(begin(ChunkArrival::kStalled)); }
  void TearDown() override {
    answer.reset();
    runOnReactor(end());
  }
  template <class T>
  T runOnReactor(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  Task<bool> begin(Clock::duration stalled) {
    std::vector<ChunkBuffer> buffer = co_await pool.acquire(Priority::kDemand, 1);
    loaded = loadInto(*reactor, std::move(buffer.front()), kChunkBytes);
    arrival = std::make_shared<ChunkArrival>(*reactor, loaded, stalled);
    co_return true;
  }
  Task<bool> end() {
    first.reset();
    all.reset();
    arrival.reset();
    loaded.reset();
    co_await gate.close();
    // Lets the reactor run the deleter that the last reference to the chunk has posted.
    co_await reactor->sleep(std::chrono::milliseconds(1));
    co_return true;
  }
  Task<void> wait(std::size_t bytes, std::optional<std::shared_ptr<LoadedChunk>>& found) {
    found = co_await ChunkArrival::awaitFirst(arrival, bytes);
  }
  // Some readers wait for the first bytes and some for all, then `happens` does.
  Task<bool> waitWhile(std::function<void()> happens) {
    gate.spawn(wait(kPart, first));
    gate.spawn(wait(kChunkBytes, all));
    EXPECT_FALSE(all);
    happens();
    co_await reactor->sleep(std::chrono::milliseconds(1));
    co_return true;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  testing_support::OwnedSlots slots{SlotStock::kFewest};
  SlotStock stock{slots.all()};
  BufferPool pool{*reactor, stock, SlotStock::kFewest};
  Gate gate{*reactor};
  std::shared_ptr<LoadedChunk> loaded;
  std::shared_ptr<ChunkArrival> arrival;
  std::shared_ptr<testing_support::StuckAnswer> answer;
  std::optional<std::shared_ptr<LoadedChunk>> first, all;
};

TEST_F(ChunkArrivalTest, WakesReadersWhenTheirBytesAreHere) {
  runOnReactor(waitWhile([this] { arrival->advance(kPart); }));
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, loaded);
  EXPECT_FALSE(all);
  EXPECT_EQ(arrival->first(kPart), loaded);
  EXPECT_EQ(arrival->first(kPart + 1), nullptr);
  runOnReactor(waitWhile([this] { arrival->advance(kPart); }));
  ASSERT_TRUE(first && all);
  EXPECT_EQ(*first, loaded);
  EXPECT_EQ(*all, loaded);
}

TEST_F(ChunkArrivalTest, SendsReadersAwayWhenTheArrivalEnds) {
  runOnReactor(waitWhile([this] {
    arrival->advance(kPart);
    answer = lendToStuckPeer(loaded);
    arrival->end();
  }));
  ASSERT_TRUE(first && all);
  EXPECT_EQ(*first, loaded) << "which came before";
  EXPECT_EQ(*all, nullptr);
  EXPECT_TRUE(answer->released()) << "its memory is needed for another try";
}

TEST_F(ChunkArrivalTest, LeavesTheMemoryOfAWholeChunkToItsAnswers) {
  runOnReactor(waitWhile([this] {
    arrival->advance(kChunkBytes);
    answer = lendToStuckPeer(loaded);
    arrival->end();
  }));
  ASSERT_TRUE(first && all);
  EXPECT_EQ(*all, loaded);
  EXPECT_FALSE(answer->released());
}

TEST_F(ChunkArrivalTest, SendsReadersAwayWhenTheArrivalStalls) {
  runOnReactor(begin(std::chrono::milliseconds(1)));
  const auto waiting = ChunkArrival::awaitFirst;
  EXPECT_EQ(runOnReactor(waiting(arrival, kPart)), nullptr);
}

}  // namespace
}  // namespace hearth
