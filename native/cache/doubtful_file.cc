// OpenCacheFile: chunks that a damaged residency log claims.
#include "cache/open_cache_file.h"

namespace hearth {
Task<Status> OpenCacheFile::examine(const std::atomic<bool>& stop) {
  const auto self = shared_from_this();
  Result<std::unique_ptr<File>> opened = co_await shard_.files.open(path(), {});
  if (!opened.ok()) co_return opened.error();
  const std::shared_ptr<File> file = std::move(*opened);
  std::vector<std::byte> buffer;
  for (std::uint32_t chunk = 0; chunk < entry_->chunkCount() && !stop; ++chunk) {
    if (entry_->state(chunk) != ChunkState::kDoubtful) continue;
    buffer.resize(entry_->chunkBytes(chunk));
    const Result<std::size_t> count = co_await file->readAt(buffer, chunk * kChunkBytes);
    if (count.code() == ErrorCode::kUnavailable) co_return count.error();
    const bool good = count.ok() && *count == buffer.size() && matches(chunk * kChunkBytes, buffer);
    if (!entry_->settleDoubt(chunk, good)) continue;
    if (good) {
      entry_->directory.queueClaim({entry_, chunk, file, shardIndex_});
    } else {
      entry_->directory.queueRetraction(entry_, chunk);
    }
    // A damaged log may leave the whole cache in doubt: claims are bounded as those of writers are.
    const Status throttled = co_await entry_->directory.throttle(shard_.reactor);
    if (!throttled.ok()) co_return throttled;
  }
  co_return Status();
}

}  // namespace hearth
