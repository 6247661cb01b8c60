// ContentCache::open with the numbers that tests make small.
#pragma once

#include "cache/cache_tuning.h"
#include "cache/content_cache.h"

namespace hearth {

[[nodiscard]] Task<Result<std::unique_ptr<ContentCache>>> openContentCache(
    std::vector<CacheDirectoryOptions> directories, std::vector<ShardContext> shards,
    CacheTuning tuning);

}  // namespace hearth
