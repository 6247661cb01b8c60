#include "dataset/reading_order.h"

#include <algorithm>

namespace hearth {
namespace {

constexpr std::uint32_t kFirstWindow = 4;
// Look-ups of one reader come a little out of order, as several of its files are fetched at the
// same time, and leave out what is here already.
constexpr std::uint32_t kBehind = 32;
constexpr std::uint32_t kGap = 64;

}  // namespace

ReadingOrder::Range ReadingOrder::next(std::uint32_t entry) {
  ++turn_;
  const auto known = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& each) {
    return each.window != 0 && entry + kBehind >= each.at && entry <= each.at + kGap;
  });
  if (known == sequences_.end()) {
    Sequence& oldest =
        *std::min_element(sequences_.begin(), sequences_.end(),
                          [](const Sequence& a, const Sequence& b) { return a.used < b.used; });
    oldest = {.at = entry, .asked = entry + 1, .window = kFirstWindow, .used = turn_};
    return {};
  }
  known->used = turn_;
  if (entry <= known->at) return {};
  known->at = entry;
  known->asked = std::max(known->asked, entry + 1);
  if (known->asked - known->at > known->window / 2) return {};
  known->window = std::min(2 * known->window, kMaxAhead);
  const Range range{known->asked, known->at + 1 + known->window};
  known->asked = range.end;
  return range;
}

}  // namespace hearth
