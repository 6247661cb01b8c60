// Checks of a manifest's bytes. Private to this room. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "manifest/format.h"

namespace hearth::manifest_format {

// Costs the header: magic, version, checksum, and that the parts fill `bytes` exactly in their
// order. `bytes` must be 8-byte aligned and outlive the answer. kCorrupt, or kUnsupported for
// another version.
[[nodiscard]] Result<Parts> checkHeader(std::span<const std::byte> bytes);

// Costs the whole manifest (linear): every invariant that docs/manifest-format.md lists. kCorrupt.
[[nodiscard]] Status checkEntries(const Parts& parts);

}  // namespace hearth::manifest_format
