// What fetching uses of the shard that it belongs to. All of it lives longer than the fetcher, and
// is used on the shard's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/content_cache.h"
#include "dataset/engine_event.h"
#include "directory/directory_client.h"
#include "fetch/buffer_pool.h"
#include "fetch/byte_lanes.h"
#include "fetch/digest_refusals.h"
#include "fetch/file_fetch.h"
#include "fetch/memory_tier.h"
#include "fetch/node_limits.h"
#include "fetch/through_reads.h"
#include "fetch/wanted_keys.h"
#include "reactor/synchronization.h"

namespace hearth {

// What a fetcher uses of its shard and of the engine. All of it lives longer.
struct FetchPorts {
  Reactor& reactor;
  Gate& gate;  // background coroutines
  ContentCache& cache;
  WantedKeys& wanted;
  // Two, so that agents that read from one another can always also fetch for one another: what
  // waits for a peer holds only ofPeers, and what a peer waits for needs only ofOrigin.
  BufferPool& ofOrigin;
  BufferPool& ofPeers;
  MemoryTier& memory;  // where chunks stay
  DirectoryClient& directory;
  ByteLanes& lanes;  // what moves bytes
  // Of the whole engine.
  NodeLimits& limits;
  DigestRefusals& refusals;
  ThroughReads& throughReads;
  FetchCounters& counters;
  const EventSink& events;
};

}  // namespace hearth
