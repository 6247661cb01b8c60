// The content key under which the bytes of one publish are cached, given to peers and read: a hash
// of what names them in their volume. Ids are never used twice, so no key ever names other bytes.
// Pure: any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/content_key.h"
#include "namespace/namespace.h"

namespace hearth {

// Chunks of one session in a row, which hold one whole file.
struct ContentRun {
  tree::WideId store{};
  tree::WideId volume{};
  tree::SessionId session = tree::kNoSession;
  std::uint32_t first = 0;
  std::uint64_t length = 0;  // in bytes
};

// SHA-256 of "hearth-volume-run\0" and the fields in their order, integers little-endian.
[[nodiscard]] ContentKey keyOf(const ContentRun& run);

// The run of a content that lies in one, which is all that sessions publish; nothing for another.
[[nodiscard]] std::optional<tree::ChunkRun> soleRun(const tree::Content& content);

// Chunks of a file of so many bytes.
[[nodiscard]] std::uint32_t chunksIn(std::uint64_t length);

}  // namespace hearth
