#include "namespace/runs.h"

#include <algorithm>
#include <tuple>

namespace hearth::tree {
namespace {

auto groupOf(const ChunkRun& run) { return std::tuple(run.session, run.holder); }
std::uint64_t endOf(const ChunkRun& run) { return std::uint64_t{run.first} + run.count; }

}  // namespace

Runs setOf(Runs runs) {
  std::erase_if(runs, [](const ChunkRun& run) { return run.session == kNoSession; });
  std::ranges::sort(
      runs, {}, [](const ChunkRun& run) { return std::tuple(run.session, run.holder, run.first); });
  Runs set;
  for (const ChunkRun& run : runs) {
    if (!set.empty() && groupOf(set.back()) == groupOf(run) && run.first <= endOf(set.back())) {
      ChunkRun& last = set.back();
      last.count = static_cast<std::uint32_t>(std::max(endOf(last), endOf(run)) - last.first);
    } else {
      set.push_back(run);
    }
  }
  return set;
}

Runs without(const Runs& all, const Runs& less) {
  Runs left;
  auto cut = less.begin();
  for (ChunkRun run : all) {
    while (cut != less.end() && (groupOf(*cut) < groupOf(run) ||
                                 (groupOf(*cut) == groupOf(run) && endOf(*cut) <= run.first))) {
      ++cut;
    }
    // Cuts are apart, so one that ends behind this run is looked at again for the next one.
    for (auto at = cut; run.count != 0 && at != less.end() && groupOf(*at) == groupOf(run) &&
                        at->first < endOf(run);
         ++at) {
      if (at->first > run.first) {
        left.push_back(run);
        left.back().count = at->first - run.first;
      }
      const std::uint64_t from = std::max<std::uint64_t>(run.first, endOf(*at));
      run.count = from < endOf(run) ? static_cast<std::uint32_t>(endOf(run) - from) : 0;
      run.first = static_cast<std::uint32_t>(from);
    }
    if (run.count != 0) left.push_back(run);
  }
  return left;
}

}  // namespace hearth::tree
