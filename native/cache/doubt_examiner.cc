#include "cache/doubt_examiner.h"

#include "cache/cache_core.h"
#include "cache/open_cache_file.h"

namespace hearth {

DoubtExaminer::DoubtExaminer(CacheCore& core) : core_(core), running_(core.shards[0].reactor) {}

void DoubtExaminer::start(std::vector<ContentKey> keys) {
  left_ += keys.size();
  if (!keys.empty()) running_.spawn(run(*this, std::move(keys)));
}

Task<void> DoubtExaminer::close() {
  stop_ = true;
  co_await running_.close();
}

Task<void> DoubtExaminer::run(DoubtExaminer& examiner, std::vector<ContentKey> keys) {
  CacheCore& core = examiner.core_;
  for (const ContentKey& key : keys) {
    if (examiner.stop_) break;
    // Evicted meanwhile, or about to be.
    if (const auto file = OpenCacheFile::openKnown(core, key)) {
      co_await core.shards[shardOf(key, core.shards.size())].reactor.enter();
      // A file that cannot be read stays in doubt, and absent.
      [[maybe_unused]] const Status examined = co_await file->examine(examiner.stop_);
      co_await core.shards[0].reactor.enter();
    }
    --examiner.left_;
  }
}

}  // namespace hearth
