#include "cache/unverified_chunk_scanner.h"

#include "cache/cache_core.h"
#include "cache/open_cache_file.h"

namespace hearth {

UnverifiedChunkScanner::UnverifiedChunkScanner(CacheCore& core)
    : core_(core), running_(core.shards[0].reactor) {}

void UnverifiedChunkScanner::start(std::vector<ContentKey> keys) {
  left_ += keys.size();
  if (!keys.empty()) running_.spawn(run(*this, std::move(keys)));
}

Task<void> UnverifiedChunkScanner::close() {
  stop_ = true;
  co_await running_.close();
}

Task<void> UnverifiedChunkScanner::run(UnverifiedChunkScanner& scanner,
                                       std::vector<ContentKey> keys) {
  CacheCore& core = scanner.core_;
  for (const ContentKey& key : keys) {
    if (scanner.stop_) break;
    // Evicted meanwhile, or about to be.
    if (const auto file = OpenCacheFile::openKnown(core, key)) {
      co_await core.shards[shardOf(key, core.shards.size())].reactor.enter();
      // A file that cannot be read stays in doubt, and absent.
      [[maybe_unused]] const Status examined = co_await file->examine(scanner.stop_);
      co_await core.shards[0].reactor.enter();
    }
    --scanner.left_;
  }
}

}  // namespace hearth
