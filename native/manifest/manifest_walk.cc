#include "manifest/manifest_walk.h"

namespace hearth {

std::vector<std::uint32_t> filesOf(const Manifest& manifest) {
  std::vector<std::uint32_t> files;
  const ManifestTotals totals = manifest.totals();
  files.reserve(totals.files);
  for (std::uint32_t entry = 0; entry < totals.entries; ++entry) {
    if (manifest.entry(entry).kind == EntryKind::kFile) files.push_back(entry);
  }
  return files;
}

std::vector<std::uint32_t> leavesBelow(const Manifest& manifest, std::uint32_t entry,
                                       std::uint32_t skip, std::uint32_t limit) {
  std::vector<std::uint32_t> leaves;
  // An explicit stack of child ranges: the depth comes from the manifest.
  struct Range {
    std::uint32_t next, end;
  };
  std::vector<Range> stack{{entry, entry + 1}};
  while (!stack.empty() && leaves.size() < limit) {
    if (stack.back().next == stack.back().end) {
      stack.pop_back();
      continue;
    }
    const ManifestEntry about = manifest.entry(stack.back().next++);
    if (about.kind == EntryKind::kDirectory) {
      stack.push_back({about.firstChild, about.firstChild + about.childCount});
    } else if (skip != 0) {
      --skip;
    } else {
      leaves.push_back(about.index);
    }
  }
  return leaves;
}

}  // namespace hearth
