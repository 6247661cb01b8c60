// OpenCacheFile: files that others wrote, which become cache files as they are.
#include "cache/open_cache_file.h"

namespace hearth {

bool OpenCacheFile::beginAdoption() {
  if (entry_->charged != 0 || !writing_.empty()) return false;
  // Writers of chunks wait for the adoption, and then find them resident.
  const auto adopted = std::make_shared<Event>(shard_.reactor);
  for (std::uint32_t chunk = 0; chunk < entry_->chunkCount(); ++chunk) {
    entry_->beginWrite(chunk);
    writing_.emplace(chunk, adopted);
  }
  return true;
}

Task<Status> OpenCacheFile::adopt(std::string from, std::vector<std::uint32_t> blockChecksums) {
  const auto self = shared_from_this();
  if (!beginAdoption()) {
    co_return Error{ErrorCode::kAlreadyExists,
                    "content key " + key().hex() + " is in the cache already"};
  }
  const Status linked = co_await linkWhole(std::move(from), blockChecksums);
  if (!linked.ok()) {
    for (const auto& [chunk, waiting] : writing_) entry_->failWrite(chunk, ChunkState::kAbsent);
  }
  const std::shared_ptr<Event> adopted = writing_.begin()->second;
  writing_.clear();
  adopted->set();
  co_return linked;
}

Task<Status> OpenCacheFile::linkWhole(std::string from,
                                      std::span<const std::uint32_t> blockChecksums) {
  CacheDirectory& directory = entry_->directory;
  // Through this descriptor the claims are synced; that of a reader will do.
  Result<std::unique_ptr<File>> opened = co_await shard_.files.open(from, {});
  if (!opened.ok()) co_return opened.error();
  const std::shared_ptr<File> file = std::move(*opened);
  Status done = co_await shard_.files.changeMode(from, entry_->executable ? 0555u : 0444u);
  if (!done.ok()) co_return done;
  done = co_await shard_.files.link(from, path());
  if (done.code() == ErrorCode::kAlreadyExists) {
    // Left by an unlink that failed; no record claims it.
    done = co_await shard_.files.unlink(path());
    if (done.ok()) done = co_await shard_.files.link(from, path());
  }
  if (!done.ok()) co_return done;
  directory.budget().adopt(allocatedBytes(size()));
  charge(allocatedBytes(size()));
  std::vector<PendingClaim> claims;
  std::span<const std::uint32_t> left = blockChecksums;
  for (std::uint32_t chunk = 0; chunk < entry_->chunkCount(); ++chunk) {
    const std::size_t blocks = blocksOf(entry_->chunkBytes(chunk));
    entry_->endWrite(chunk, left.first(blocks));
    left = left.subspan(blocks);
    claims.push_back({entry_, chunk, file, shardIndex_});
  }
  directory.deferClaims(entry_, std::move(claims));
  co_return Status();
}

}  // namespace hearth
