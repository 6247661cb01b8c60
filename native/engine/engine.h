// The engine: all bytes of one agent. It knows no JavaScript and no Kubernetes; the agent above
// pushes state down (cluster view, manifests, locations, pins, jobs, mounts) and reads statistics,
// and one function (EventSink) carries the few events that go up.
//
// Threads: open() and close() block and belong to any thread that is not a shard's. Calls that
// return a Task are awaited on the home shard, `co_await engine.home().enter()` first, and continue
// there. Calls that return at once may come from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dataset/manifest_store.h"
#include "engine/arena_source.h"
#include "engine/cluster_leave.h"
#include "engine/content_calls.h"
#include "engine/local_files.h"
#include "engine/rdma_ports.h"
#include "engine/shard.h"
#include "engine/volume_calls.h"
#include "mount/mounts.h"
#include "warm/scrubber.h"
#include "warm/warm_job.h"

namespace hearth {

[[nodiscard]] std::unique_ptr<FileSystem> kernelFiles(Reactor& reactor);

struct EngineOptions {
  std::string node, incarnation, cluster;
  std::vector<std::byte> secret;
  std::vector<PeerAddress> listen;
  std::vector<CacheDirectoryOptions> cacheDirectories;
  std::size_t shards = 0;              // 0: as many as cores, at most 8
  std::size_t originConnections = 32;  // all shards together
  // A transfer from an origin that is slow for so long makes room for other datasets that wait.
  Clock::duration originFloorTimeout = std::chrono::seconds(10);
  std::uint64_t bufferBytes = 0;  // the arena of all shards; 0: 64 MiB a shard
  // For whole files in memory, which applications read from there (MemoryFiles), beside the arena;
  // 0: none.
  std::uint64_t memoryBytes = 0;
  // The best pages to ask for. The administrator sets huge ones apart.
  ArenaPageKind arenaPages = ArenaPageKind::kTransparent;
  // Socket of hearth-holder, which owns FUSE mounts and keeps the arena; empty: none.
  std::string holder;
  // With memoryBytes the engine waits so long for a holder that starts beside it: memory files are
  // the holder's, and an engine that began without them has none.
  std::chrono::milliseconds holderTimeout{30'000};
  // Former agents' processes get so long to end; then the engine makes a new arena.
  std::chrono::milliseconds formerAgentsTimeout{10'000};
  ScrubOptions scrub;
  NodeLimitOptions limits;
  std::string certificateAuthorities;
  // Socket at which clients of this node get files that are complete here; empty: none.
  std::string clientSocket;
  // Folder on a tmpfs that outlives the process, for the tails of volumes' logs; it is made in one
  // that exists. Empty: none.
  std::string volumeTails;
  // Refuse origins in loopback, link-local and private ranges, but for those listed (CIDR).
  bool forbidPrivateAddresses = false;
  std::vector<std::string> allowedNetworks;
  ProxyOptions proxies;
  RdmaOptions rdma;
  TransportFactory transport = PeerTransport::create;  // tests use others
  // The files of one shard's reactor; tests use others than the kernel's.
  std::function<std::unique_ptr<FileSystem>(Reactor&)> files = kernelFiles;
};

struct EngineStatistics {
  double uptimeSeconds = 0;
  std::string backend;
  std::size_t shards = 0;
  CacheStatistics cache;
  OriginStatistics origin;
  // Bytes of files; `peers` counts the bytes that the protocol adds.
  std::uint64_t peerBytesReceived = 0, peerBytesSent = 0;
  std::uint64_t peerRequests = 0;
  std::uint64_t digestMismatches = 0;  // files dropped, as they were not what their digest says
  std::uint64_t demandReads = 0, demandBytes = 0, directoryBypassed = 0;
  std::uint64_t directoryUnanswered = 0;
  // WILLNEED and DONTNEED, as AdviceCounters counts them.
  std::uint64_t willNeed = 0, willNeedBytes = 0, dontNeed = 0, dontNeedBytes = 0;
  // Opens and reads through mounts that ended with an error, by its code.
  std::map<ErrorCode, std::uint64_t> failedReads;
  ScrubStatistics scrub;
  std::uint64_t throughBytes = 0;  // came in for readers and could not be kept
  std::size_t buffersInUse = 0;
  struct ArenaUse {
    std::uint64_t bytes = 0, committedBytes = 0, hugeBytes = 0;
    ArenaPages pages;
    bool touchedByHolder = false;  // the holder is charged for committed memory
    std::string unkept;            // why the holder does not keep the arena; empty when it does
    ArenaOrigin origin;
    // At the start: bytes of whole chunks, and of slots that may not be used.
    std::uint64_t foundBytes = 0, quarantinedBytes = 0;
    // Bytes of chunks that wait for no disk and go when memory is needed; and files that went.
    std::uint64_t keptBytes = 0, evictedFiles = 0;
    std::uint64_t movedBytes = 0;   // slots that went from one shard to another
    std::uint64_t loadedBytes = 0;  // loaded from cache files
  };
  ArenaUse arena;                    // memory for chunks
  MemoryFilesUse memoryFiles;        // memory for whole files
  std::uint64_t writeBackBytes = 0;  // in memory, and not in the cache files yet
  ClientUse clients;                 // reads of clients over the network
  std::vector<LimitUse> limits;      // of the node, whether set or not
  std::size_t longestQueue = 0;      // of calls to one shard, since the start
  RdmaStatistics rdma;
  std::vector<PeerStatistics> peers;
};

class Engine {
 public:
  // Errors name the option and say what to do: a directory in use, an address taken, no file system
  // features.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> open(EngineOptions options,
                                                            EventSink events);
  ~Engine();
  // Ends jobs, mounts' sessions (the mounts themselves stay with the holder), connections and
  // threads, and claims all written bytes. Never calls EventSink afterwards. Idempotent.
  void close();

  [[nodiscard]] Reactor& home() { return *commons_.shards.front()->reactor; }
  [[nodiscard]] EngineCommons& commons() { return commons_; }
  [[nodiscard]] std::vector<PeerAddress> addresses() const;

  [[nodiscard]] Task<void> setCluster(std::vector<ClusterMember> members);
  // All writable volumes that there are: VolumeCalls::set, and serves their mounts that the agent
  // before has left.
  [[nodiscard]] Task<void> setVolumes(std::vector<VolumeOptions> volumes);

  // Refuses these tokens from now on, and ends the connections of their clients; replaces the
  // former list.
  [[nodiscard]] Task<void> setRevokedTokens(RevokedTokens tokens);

  // Any thread. Sets all datasets that clients may name in paths, as ClientDatasets::name.
  void nameDatasets(std::map<std::string, std::shared_ptr<Dataset>> datasets,
                    std::set<std::string> awaited = {}) {
    commons_.clientDatasets.name(std::move(datasets), std::move(awaited));
  }

  [[nodiscard]] ManifestStore& manifests() { return *manifests_; }
  [[nodiscard]] ContentCalls& contents() { return *contents_; }
  [[nodiscard]] Mounts& mounts() { return *mounts_; }
  [[nodiscard]] VolumeCalls& volumes() { return *commons_.volumes; }

  // Begins a job; kAlreadyExists when the name is taken.
  [[nodiscard]] Status warm(WarmOptions options);
  [[nodiscard]] std::shared_ptr<WarmJob> findJob(const std::string& name) const;
  // Cancels a running job, forgets an ended one.
  [[nodiscard]] Status cancelWarm(const std::string& name);

  [[nodiscard]] Task<EngineStatistics> statistics();

 private:
  explicit Engine(EventSink events);
  [[nodiscard]] Status start(const EngineOptions& options);
  void createHolderLink(const EngineOptions& options);
  // Blocks; on a helper's thread.
  [[nodiscard]] Status openArena(const EngineOptions& options);
  // Home shard. Memory files are optional: where there are none, the log says why.
  [[nodiscard]] Task<void> openMemoryFiles(const EngineOptions& options,
                                           std::vector<ShardContext> shards);
  // These block; on a helper's thread. The holder's folder of tmpfs; an earlier agent's files are
  // gone where they do not fit.
  [[nodiscard]] Result<MemoryFilesOptions> openMemoryFolder(std::uint64_t bytes);
  // The same, while the holder is away up to the timeout.
  [[nodiscard]] Result<MemoryFilesOptions> awaitMemoryFolder(std::uint64_t bytes,
                                                             std::chrono::milliseconds timeout);
  // Gives the memory of an earlier agent back.
  void dropMemoryFolder();
  void createPools();
  [[nodiscard]] std::vector<std::vector<const ChunkSlot*>> slotParts(std::size_t fewest);
  // On the shard's thread.
  [[nodiscard]] Task<void> adoptChunks(Shard& shard);
  [[nodiscard]] Task<void> adoptChunk(Shard& shard, ChunkBuffer buffer, const SlotContents& found);
  Task<void> commitArena();
  // Tries again while the holder that is to be charged is away. False: nothing was committed.
  [[nodiscard]] Task<bool> commit(std::size_t first, std::size_t count);
  [[nodiscard]] EngineStatistics::ArenaUse arenaUse() const;
  [[nodiscard]] Status createShard(const EngineOptions& options, std::size_t index);
  [[nodiscard]] Task<Status> startServices(const EngineOptions& options);
  // Before the shards start: opens the RDMA ports over which their transports read.
  [[nodiscard]] Task<Status> openRdma(const EngineOptions& options);
  // On the home shard's thread, for a shard that has started: takes ports out of use that this
  // shard cannot use.
  [[nodiscard]] Status checkRdma(const Shard& shard);
  void refusePort(const RdmaDevice& port, const Error& reason);
  // Makes the RDMA ports know the memory for chunks, one port after the other; until then reads
  // into it go over TCP. An error: no port knows it.
  [[nodiscard]] Task<Status> pinArena();
  // When all shards have started: has the memory for chunks committed and pinned, before it returns
  // where RDMA is required, else in the background.
  [[nodiscard]] Task<Status> prepareArena();
  Task<void> prepareArenaMeanwhile();
  // Creates the services of the home shard, when all shards have started.
  void createServices(const EngineOptions& options);
  void createMounting();
  [[nodiscard]] Task<Status> serveClientsOfThisNode(const EngineOptions& options);
  [[nodiscard]] Task<Status> startShard(const EngineOptions& options, Shard& shard);
  [[nodiscard]] static Task<void> setView(Shard& shard, std::shared_ptr<const ClusterView> view);
  [[nodiscard]] Task<void> stopServices();
  [[nodiscard]] Task<void> stopShard(Shard& shard);
  void joinThreads();

  EngineCommons commons_;
  ClusterLeave leave_{commons_};
  std::unique_ptr<ArenaSource> arenaSource_;
  ArenaOrigin arenaOrigin_;
  RdmaPorts rdma_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  LocalFiles localFiles_{commons_};
  std::unique_ptr<LocalServer> localServer_;
  std::unique_ptr<ManifestStore> manifests_;
  std::unique_ptr<ContentCalls> contents_;
  std::unique_ptr<Mounts> mounts_;
  std::unique_ptr<Scrubber> scrubber_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<WarmJob>> jobs_;
  Clock::time_point started_ = Clock::now();
  bool running_ = false;
};

}  // namespace hearth
