#include "fetch/buffer_pool.h"

#include <gtest/gtest.h>

#include "base/generated/constants.h"
#include "fetch/testing_slots.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

struct BufferPoolTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  testing_support::OwnedSlots slots{8};
  SlotStock stock{slots.all()};
  std::unique_ptr<BufferPool> pool = std::make_unique<BufferPool>(*reactor, stock, 8);
};

Task<void> hold(Reactor& reactor, BufferPool& pool, Priority priority, std::size_t count,
                std::vector<int>& order, int name, std::uint32_t rank = 0, std::string owner = {}) {
  const std::vector<ChunkBuffer> buffers =
      co_await pool.acquire(priority, count, rank, std::move(owner));
  EXPECT_EQ(buffers.size(), count);
  order.push_back(name);
  co_await reactor.sleep(std::chrono::milliseconds(2));
}

Task<std::vector<int>> contend(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 0));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order,
                  1));  // would take buffers kept for readers
  gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, 2));
  gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, 3));
  co_await gate.close();
  co_return order;
}

TEST_F(BufferPoolTest, ServesReadersBeforeBackgroundWork) {
  EXPECT_EQ(reactor->runUntilComplete(contend(*reactor, *pool)), (std::vector<int>{0, 2, 3, 1}));
  EXPECT_EQ(pool->inUse(), 0u);
}

Task<void> takeBesideOthers(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  {
    std::vector<ChunkBuffer> held;
    while (std::optional<ChunkBuffer> buffer = pool.takeNow()) held.push_back(std::move(*buffer));
    EXPECT_EQ(held.size(), 6u) << "a quarter is for readers";
    gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, 0));
    held.pop_back();
    EXPECT_FALSE(pool.takeNow().has_value()) << "another waits";
  }
  co_await gate.close();
  EXPECT_TRUE(pool.takeNow().has_value());
}

TEST_F(BufferPoolTest, TakeNowTakesABufferOnlyWhileNobodyWaits) {
  struct Run {
    static Task<bool> run(Reactor& reactor, BufferPool& pool) {
      co_await takeBesideOthers(reactor, pool);
      co_return true;
    }
  };
  EXPECT_TRUE(reactor->runUntilComplete(Run::run(*reactor, *pool)));
}

Task<std::vector<int>> contendAsOwners(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  for (int i = 0; i < 4; ++i)
    gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, i, 0, "a"));
  EXPECT_FALSE(pool.shouldYield("a"));
  gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, 4, 0, "b"));
  EXPECT_TRUE(pool.shouldYield("a"));
  EXPECT_FALSE(pool.shouldYield("b"));
  co_await gate.close();
  co_return order;
}

TEST_F(BufferPoolTest, ServesTheOwnerThatHoldsTheFewest) {
  EXPECT_EQ(reactor->runUntilComplete(contendAsOwners(*reactor, *pool)),
            (std::vector<int>{0, 1, 4, 2, 3}));
  EXPECT_EQ(pool->inUse(), 0u);
}

Task<std::vector<int>> contendWithReaders(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  for (int i = 0; i < 4; ++i)
    gate.spawn(hold(reactor, pool, Priority::kDemand, 4, order, i, 0, "a"));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 4, 900, "b"));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 5, 900, "b"));
  co_await gate.close();
  co_return order;
}

TEST_F(BufferPoolTest, ServesAnOwnerWithoutBuffersBeforeReadersOfOneThatHoldsHalf) {
  const std::vector<int> order = reactor->runUntilComplete(contendWithReaders(*reactor, *pool));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 4, 2, 5, 3}));
}

Task<std::vector<int>> contendByRank(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 0, 500));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 1, 500));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 2, 900));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 3, 100));
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 4, 500));
  co_await gate.close();
  co_return order;
}

TEST_F(BufferPoolTest, ServesBackgroundWorkByItsRankAndThenByArrival) {
  EXPECT_EQ(reactor->runUntilComplete(contendByRank(*reactor, *pool)),
            (std::vector<int>{0, 3, 1, 4, 2}));
}

Task<void> holdFor(BufferPool& pool, Urgency& urgency, std::vector<int>& order, int name) {
  const std::vector<ChunkBuffer> buffers = co_await pool.acquire(urgency, 4, 0);
  order.push_back(name);
}

Task<std::vector<int>> contendAndRaise(Reactor& reactor, BufferPool& pool) {
  std::vector<int> order;
  Gate gate(reactor);
  Urgency first(Priority::kBackground), joined(Priority::kBackground);
  gate.spawn(hold(reactor, pool, Priority::kBackground, 4, order, 0));
  gate.spawn(holdFor(pool, first, order, 1));
  gate.spawn(holdFor(pool, joined, order, 2));
  joined.raise();  // takes buffers kept for readers
  co_await gate.close();
  co_return order;
}

TEST_F(BufferPoolTest, ServesRaisedWorkAsDemand) {
  EXPECT_EQ(reactor->runUntilComplete(contendAndRaise(*reactor, *pool)),
            (std::vector<int>{0, 2, 1}));
}

Task<bool> fillDistinct(BufferPool& pool) {
  const std::vector<ChunkBuffer> buffers = co_await pool.acquire(Priority::kDemand, 4);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::byte& byte : buffers[i].first(kChunkBytes)) byte = static_cast<std::byte>(i);
  }
  bool distinct = true;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto bytes = buffers[i].first(kChunkBytes);
    distinct = distinct && bytes.front() == static_cast<std::byte>(i) &&
               bytes.back() == static_cast<std::byte>(i);
  }
  co_return distinct;
}

TEST_F(BufferPoolTest, GivesWholeChunksThatDoNotOverlap) {
  EXPECT_TRUE(reactor->runUntilComplete(fillDistinct(*pool)));
}

}  // namespace
}  // namespace hearth
