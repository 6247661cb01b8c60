#include "dataset/reading_order.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

std::uint32_t length(ReadingOrder::Range range) { return range.end - range.first; }

TEST(ReadingOrder, AsksFewTimesForWhatIsReadInOrder) {
  ReadingOrder order;
  constexpr std::uint32_t kFiles = 2000;
  std::uint32_t requests = 0, alone = 0, known = 0;
  for (std::uint32_t entry = 10; entry < 10 + kFiles; ++entry) {
    if (entry >= known) ++alone;
    const ReadingOrder::Range range = order.next(entry);
    if (length(range) == 0) continue;
    ++requests;
    EXPECT_EQ(range.first, std::max(known, entry + 1)) << "nothing is left out or asked for twice";
    EXPECT_LE(length(range), ReadingOrder::kMaxAhead);
    known = range.end;
  }
  EXPECT_LE(alone, 2u) << "look-ups that were not asked for ahead";
  EXPECT_LE(requests, 24u);
}

TEST(ReadingOrder, AsksForNothingAheadOfWhoReadsHereAndThere) {
  ReadingOrder order;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(length(order.next(i * 7919 % 1'000'000)), 0u);
  }
}

TEST(ReadingOrder, DistinguishesReadersAndTakesLookUpsALittleOutOfOrder) {
  ReadingOrder order;
  std::uint32_t first = 0, second = 0;
  for (std::uint32_t i = 0; i < 256; i += 4) {
    for (const std::uint32_t entry : {i + 2, i, i + 3, i + 1}) {
      first = std::max(first, order.next(1000 + entry).end);
      second = std::max(second, order.next(500'000 + entry).end);
    }
  }
  EXPECT_GT(first, 1000u + 256);
  EXPECT_GT(second, 500'000u + 256);
}

}  // namespace
}  // namespace hearth
