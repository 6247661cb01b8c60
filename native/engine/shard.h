// One shard of the engine: a thread with a reactor, and everything that belongs to the keys that
// the shard owns. The parts know one another through this struct. Used on the shard's thread only.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "arena/arena.h"
#include "arena/arena_index.h"
#include "cache/content_cache.h"
#include "dataset/engine_event.h"
#include "directory/cluster_view.h"
#include "engine/client_datasets.h"
#include "engine/client_transit.h"
#include "fetch/buffer_pool.h"
#include "fetch/byte_lanes.h"
#include "fetch/digest_refusals.h"
#include "fetch/file_fetch.h"
#include "fetch/node_limits.h"
#include "fetch/slot_exchange.h"
#include "fetch/through_reads.h"
#include "fetch/withdrawn_bytes.h"
#include "files/file_system.h"
#include "memory_files/memory_files.h"
#include "memory_files/memory_filling.h"
#include "mount/mount_ports.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"
#include "sessions/published_files.h"
#include "transport/peer_transport.h"
#include "warm/warm_ports.h"

namespace hearth {

class ClientAdvices;
class DirectoryService;
class DirectoryClient;
class CopyReleases;
class ReleaseClient;
class Fetcher;
class FileVerifier;
class HolderLink;
class MemoryTier;
class PeerService;
class ClientVolumes;
class VolumeCalls;
class WantedKeys;

// Counters of the whole engine. Any thread.
struct EngineCounters {
  FetchCounters fetched;                           // of files
  std::atomic<std::uint64_t> servedBytes{0};       // of files, given to other agents
  std::atomic<std::uint64_t> digestMismatches{0};  // files that were not what their digest says
  DemandCounters demand;
  AdviceCounters advice;
  DirectoryCounters directory;
};

struct Shard;

// SHA-256 takes as long as a network of 10 Gbit/s on one thread.
[[nodiscard]] inline std::size_t wholeFileThreads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 2, 8);
}

// The parts that all shards share. Set up before the first thread starts, and constant afterwards.
struct EngineCommons {
  std::string self;
  EventSink events;
  std::shared_ptr<HolderLink> holder;  // of mounts and memory; lives until the engine has closed
  // The arena has all shards' slots; the index records their contents for the next process, and
  // `found` has what was there at the start. Made after the cache is open, before shards use
  // memory, and never replaced.
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ArenaIndex> index;
  ArenaFindings found;
  std::vector<ChunkSlot> slots;  // all of the arena; shards have them in their stocks
  SlotExchange exchange;
  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<ByteLane> lanes;  // of the shards, in order; made when all of them have started
  std::unique_ptr<ContentCache> cache;
  std::unique_ptr<MemoryFiles> memoryFiles;  // made with the arena
  std::unique_ptr<NodeLimits> limits;
  // Runs work on whole files, piece by piece, or on lists of millions, at low priority. Each
  // reactor's own helpers run quick calls.
  ThreadPool wholeFiles{{.threads = wholeFileThreads(), .niceness = 10}};
  // Writes what clients send, and waits for the disk meanwhile.
  ThreadPool clientDisk{{.threads = 4}};
  // Threads for directory origins, whose file systems may hang.
  std::shared_ptr<DirectoryCalls> directories;
  // Made when all shards have started.
  std::unique_ptr<WarmPorts> warming;
  std::unique_ptr<MountPorts> mounting;          // stays to the end, as files may still be open
  std::unique_ptr<ClientAdvices> advices;        // made with `mounting`
  std::unique_ptr<VolumeCalls> volumes;          // made with `mounting`
  std::unique_ptr<ClientVolumes> clientVolumes;  // made with `volumes`
  EngineCounters counters;
  FailedReads failedReads;
  DigestRefusals refusals;
  WithdrawnBytes withdrawn;
  ThroughReads throughReads;
  ClientDatasets clientDatasets;
  PublishedFiles publishedFiles;  // of volumes that this node writes

  [[nodiscard]] Shard& owner(const ContentKey& key) { return *shards[shardOf(key, shards.size())]; }
  void log(EngineEvent::Level level, std::string message,
           std::map<std::string, std::string> fields = {}) const;
};

struct Shard {
  // `shared` must remain live while this object is used.
  explicit Shard(EngineCommons& shared);
  ~Shard();

  EngineCommons& commons;
  std::size_t index = 0;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<SlotStock> slots;
  // FetchPorts says why there are two pools.
  std::unique_ptr<BufferPool> peerBuffers;
  std::unique_ptr<BufferPool> originBuffers;
  // For answers to clients. Holders of its slots wait for those of the pools above, never the other
  // way round.
  std::unique_ptr<BufferPool> clientBuffers;
  std::unique_ptr<MemoryTier> memory;
  std::unique_ptr<OriginClient> origin;
  std::unique_ptr<WantedKeys> wanted;
  std::unique_ptr<DirectoryService> directoryService;
  std::unique_ptr<DirectoryClient> directory;
  std::unique_ptr<CopyReleases> releases;
  std::unique_ptr<ReleaseClient> leave;
  std::unique_ptr<ByteLanes> lanes;
  std::unique_ptr<Fetcher> fetcher;
  std::unique_ptr<FileVerifier> verifier;
  std::unique_ptr<MemoryFilling> filling;
  std::unique_ptr<PeerService> peerService;
  std::unique_ptr<ClientTransit> clientTransit;
  std::unique_ptr<PeerTransport> transport;
  std::unique_ptr<Gate> gate;  // background coroutines of this shard
  std::shared_ptr<const ClusterView> view;
  std::thread thread;
};

}  // namespace hearth
