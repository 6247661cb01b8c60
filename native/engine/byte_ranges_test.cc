#include "engine/byte_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hearth {
namespace {

TEST(ByteRanges, AreWhatASetOfBytesIs) {
  constexpr std::uint64_t kBytes = 64;
  std::mt19937 random(1);
  ByteRanges ranges;
  std::vector<bool> model(kBytes);
  for (int i = 0; i < 20'000; ++i) {
    std::uint64_t begin = random() % (kBytes + 1), end = random() % (kBytes + 1);
    if (begin > end) std::swap(begin, end);
    const bool adds = random() % 2 == 0;
    if (adds) {
      ranges.add(begin, end);
    } else {
      ranges.remove(begin, end);
    }
    for (std::uint64_t at = begin; at < end; ++at) model[at] = adds;
    std::vector<bool> seen(kBytes);
    std::uint64_t last = 0;
    for (const auto& [first, behind] : ranges.ranges()) {
      ASSERT_LT(first, behind);
      ASSERT_TRUE(first == 0 || first > last) << "ranges touch";
      last = behind;
      for (std::uint64_t at = first; at < behind; ++at) seen[at] = true;
    }
    ASSERT_EQ(seen, model);
    ASSERT_EQ(ranges.bytes(), static_cast<std::uint64_t>(std::ranges::count(model, true)));
    ASSERT_EQ(ranges.end(), last);
  }
}

}  // namespace
}  // namespace hearth
