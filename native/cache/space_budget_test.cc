#include "cache/space_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace hearth {
namespace {

using Answer = SpaceBudget::Answer;

TEST(SpaceBudgetTest, ReservesUpToTheBudgetAndNoFurther) {
  SpaceBudget budget(10000, 0);
  EXPECT_EQ(budget.reserve(4096), Answer::kMeasureFirst);
  budget.measured(budget.measuring(), 1 << 30);
  EXPECT_EQ(budget.reserve(8192), Answer::kReserved);
  EXPECT_EQ(budget.reserve(4096), Answer::kOverBudget);
  EXPECT_EQ(budget.deficit(4096), 8192u + 4096 - 10000);
  budget.written(8192);
  budget.release(8192);
  EXPECT_EQ(budget.reserve(4096), Answer::kReserved);
  budget.cancel(4096);
  EXPECT_EQ(budget.usedBytes(), 0u);
  EXPECT_EQ(budget.reserve(~std::uint64_t{0}), Answer::kOverBudget);
}

TEST(SpaceBudgetTest, KeepsTheFloorWithWhatIsUnderWayAndWrittenSinceTheMeasurement) {
  SpaceBudget budget(1 << 30, 100000);
  budget.measured(budget.measuring(), 120000);
  EXPECT_EQ(budget.reserve(16384), Answer::kReserved);
  EXPECT_EQ(budget.reserve(8192), Answer::kBelowFloor);
  EXPECT_EQ(budget.deficit(8192), 100000u + 8192 - (120000 - 16384));
  const std::uint64_t token = budget.measuring();
  budget.written(16384);
  // The answer may be from before the write: its bytes are subtracted.
  budget.measured(token, 120000);
  EXPECT_EQ(budget.freeBytes(), 120000u - 16384);
  EXPECT_EQ(budget.reserve(8192), Answer::kBelowFloor);
  budget.remeasure();
  EXPECT_EQ(budget.reserve(1), Answer::kMeasureFirst);
}

TEST(SpaceBudgetTest, ManyThreadsNeverExceedIt) {
  constexpr std::uint64_t kBudgetBytes = 100 * 4096;
  SpaceBudget budget(kBudgetBytes, 0);
  budget.measured(budget.measuring(), 1 << 30);
  std::atomic<std::uint64_t> held{0};
  std::atomic<std::uint64_t> most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const std::uint64_t bytes = 4096 * (1 + i % 40);
        if (budget.reserve(bytes) != Answer::kReserved) {
          budget.measured(budget.measuring(), 1 << 30);
          continue;
        }
        const std::uint64_t now = held += bytes;
        std::uint64_t known = most;
        while (known < now && !most.compare_exchange_weak(known, now)) {
        }
        held -= bytes;
        budget.written(bytes);
        budget.release(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kBudgetBytes);
  EXPECT_EQ(budget.usedBytes(), 0u);
}

}  // namespace
}  // namespace hearth
