// The parts of a shard and its engine that fetching uses.
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

// All members must outlive the fetcher, and are used on the shard's thread.
struct FetchPorts {
  Reactor& reactor;
  Gate& gate;  // background coroutines
  ContentCache& cache;
  WantedKeys& wanted;
  // Two pools, so that agents that read from one another can still fetch for one another: work that
  // waits for a peer holds only ofPeers, and work that a peer waits for needs only ofOrigin.
  BufferPool& ofOrigin;
  BufferPool& ofPeers;
  MemoryTier& memory;  // where chunks stay
  DirectoryClient& directory;
  ByteLanes& lanes;  // move bytes
  // These belong to the whole engine.
  NodeLimits& limits;
  DigestRefusals& refusals;
  ThroughReads& throughReads;
  FetchCounters& counters;
  const EventSink& events;
};

}  // namespace hearth
