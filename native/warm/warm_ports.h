// The parts of the engine that warm jobs and the scrub use. They outlive both.
#pragma once

#include <vector>

#include "cache/content_cache.h"
#include "dataset/engine_event.h"
#include "fetch/fetcher.h"
#include "memory_files/memory_filling.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "warm/file_verifier.h"

namespace hearth {

// One shard; all but `reactor` are used on its thread. All of it lives longer than its users.
struct WarmShard {
  Reactor& reactor;
  Gate& gate;  // background coroutines
  Fetcher& fetcher;
  FileVerifier& verifier;
  DirectoryClient& directory;
  MemoryFilling& memory;
};

// The parts of the engine that warm jobs and the scrub use. They outlive both.
struct WarmPorts {
  ContentCache& cache;
  ThreadPool& wholeFiles;  // for what goes through whole files or through lists of millions
  const EventSink& events;
  std::vector<WarmShard> shards;  // the home shard is the first

  [[nodiscard]] const WarmShard& home() const { return shards.front(); }
  [[nodiscard]] const WarmShard& owner(const ContentKey& key) const {
    return shards[shardOf(key, shards.size())];
  }
};

}  // namespace hearth
