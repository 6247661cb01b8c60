// What fetching uses of the shard that it belongs to. All of it lives longer than the fetcher, and
// is used on the shard's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "cache/content_cache.h"
#include "dataset/question.h"
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

// Who compares files with their digests.
class FileWatch {
 public:
  virtual ~FileWatch() = default;
  // Its key is wanted from now on, for the first time or anew.
  virtual void opened(const std::shared_ptr<FileFetch>& fetch) = 0;
  // A chunk came in and is resident; `loaded` has its bytes.
  virtual void arrived(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                       const std::shared_ptr<LoadedChunk>& loaded) = 0;
};

// Where chunks come in, and how long they stay there.
struct ChunkMemory {
  BufferPool& buffers;
  ChunkRetention& retention;
};

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
  FileWatch& watch;
  // Of the whole engine.
  DigestRefusals& refusals;
  ThroughReads& throughReads;
  FetchCounters& counters;
  const Ask& ask;
};

}  // namespace hearth
