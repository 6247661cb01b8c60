// Verified bytes of a cache file for a shard: mapped pages may have to come from the disk, and
// their checksums take time, so both happen on a helper thread.
#pragma once

#include <memory>
#include <span>

#include "cache/content_cache.h"
#include "reactor/reactor.h"

namespace hearth {

// As CachedFile::verified. The memory stays valid as long as the file.
[[nodiscard]] inline Task<Result<std::span<const std::byte>>> readVerified(
    Reactor& reactor, std::shared_ptr<CachedFile> file, std::uint64_t offset,
    std::uint64_t length) {
  auto read = [file, offset, length] { return file->verified(offset, length); };
  const Result<std::span<const std::byte>> bytes = co_await reactor.offload(read);
  co_return bytes;
}

}  // namespace hearth
