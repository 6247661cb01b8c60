// What fetching uses of the shard that it belongs to. All of it lives longer than the fetcher, and
// is used on the shard's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/content_cache.h"
#include "dataset/engine_event.h"
#include "directory/directory_client.h"
#include "fetch/buffer_pool.h"
#include "fetch/chunk_retention.h"
#include "fetch/digest_refusals.h"
#include "fetch/file_fetch.h"
#include "fetch/through_reads.h"
#include "fetch/wanted_keys.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"

namespace hearth {

// Where chunks come in, and how long they stay there.
struct ChunkMemory {
  BufferPool& buffers;
  ChunkRetention& retention;
};

// What a fetcher uses of its shard and of the engine. All of it lives longer.
struct FetchPorts {
  Reactor& reactor;
  Gate& gate;  // background coroutines
  ContentCache& cache;
  WantedKeys& wanted;
  // Two, so that agents that read from one another can always also fetch for one another: what
  // waits for a peer holds only ofPeers, and what a peer waits for needs only ofOrigin.
  ChunkMemory ofOrigin;
  ChunkMemory ofPeers;
  OriginClient& origin;
  DirectoryClient& directory;
  PeerTransport& transport;
  // Of the whole engine.
  DigestRefusals& refusals;
  ThroughReads& throughReads;
  FetchCounters& counters;
  const EventSink& events;
};

}  // namespace hearth
