// Lists of entries of a manifest.
#pragma once

#include <cstdint>
#include <vector>

#include "manifest/manifest.h"

namespace hearth {

// Indices of all files, in manifest order.
[[nodiscard]] std::vector<std::uint32_t> filesOf(const Manifest& manifest);

// Files and symlinks at or below an entry, depth first in name order, without the first `skip`, at
// most `limit`.
[[nodiscard]] std::vector<std::uint32_t> leavesBelow(const Manifest& manifest, std::uint32_t entry,
                                                     std::uint32_t skip, std::uint32_t limit);

}  // namespace hearth
