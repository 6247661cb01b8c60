#include "warm/bad_blocks.h"

#include <algorithm>

namespace hearth {
namespace {

// A line of a terminal has room for them.
constexpr std::size_t kMaxNamedRanges = 16;

}  // namespace

void BadBlocks::add(std::uint64_t first, std::uint64_t end) {
  if (!ranges_.empty() && ranges_.back().end == first) {
    ranges_.back().end = end;
  } else {
    ranges_.push_back({first, end});
  }
}

bool BadBlocks::overlaps(std::uint64_t first, std::uint64_t end) const {
  return std::ranges::any_of(
      ranges_, [&](const Range& range) { return range.first < end && first < range.end; });
}

std::vector<BadBlocks::Range> BadBlocks::ordered() const {
  std::vector<Range> sorted = ranges_;
  std::ranges::sort(sorted, {}, &Range::first);
  std::vector<Range> apart;
  for (const Range& range : sorted) {
    if (!apart.empty() && range.first <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

std::uint64_t BadBlocks::count() const {
  std::uint64_t sum = 0;
  for (const Range& range : ordered()) sum += range.end - range.first;
  return sum;
}

std::string BadBlocks::text() const {
  const std::vector<Range> ranges = ordered();
  std::string words;
  std::uint64_t named = 0;
  for (std::size_t i = 0; i < std::min(ranges.size(), kMaxNamedRanges); ++i) {
    const auto [first, end] = ranges[i];
    words += (i == 0 ? "" : ", ") + std::to_string(first);
    if (end - first > 1) words += "-" + std::to_string(end - 1);
    named += end - first;
  }
  const std::uint64_t all = count();
  if (all == 0) return words;
  if (named < all) words += " and " + std::to_string(all - named) + " more";
  return (all == 1 ? "block " : "blocks ") + words;
}

}  // namespace hearth
