// The dataset that the agent of the takeover tests serves.
#pragma once

#include <vector>

#include "fuse/testing/test_source.h"

namespace hearth::fuse_testing {

inline constexpr std::uint64_t kTakeoverSize = 3'000'000;

inline std::vector<ManifestRow> takeoverRows() {
  std::vector<ManifestRow> rows;
  for (const char* path : {"whole", "later", "folder/later2"}) {
    ManifestRow row;
    row.path = path;
    row.size = kTakeoverSize;
    row.sourceDigest = Sha256::of(std::as_bytes(std::span(row.path)));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace hearth::fuse_testing
