// The engine: all bytes of one agent. It knows no JavaScript and no Kubernetes; the agent above
// pushes state down (cluster view, manifests, locations, pins, jobs, mounts) and reads statistics,
// and one function (EventSink) carries the few events that go up.
//
// Threads: open() and close() block and belong to any thread that is not a shard's. Everything that
// answers with a Task is awaited on the home shard: `co_await engine.home().enter()` first, and it
// continues there. What answers at once may be called from any thread.
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
  std::uint64_t bufferBytes = 0;  // the arena, of all shards together; 0: 64 MiB a shard
  // The best pages that are asked for. Huge ones are set apart by the administrator.
  ArenaPageKind arenaPages = ArenaPageKind::kTransparent;
  // Socket of hearth-holder, which owns FUSE mounts and keeps the arena; empty: none.
  std::string holder;
  // Processes that had the arena before get so long to end; then a new one is made.
  std::chrono::milliseconds formerAgentsTimeout{10'000};
  ScrubOptions scrub;
  NodeLimitOptions limits;
  std::string certificateAuthorities;
  // Socket at which clients of this node get files that are here whole; empty: none.
  std::string clientSocket;
  // Refuse origins in loopback, link-local and private ranges, but for those listed (CIDR).
  bool forbidPrivateAddresses = false;
  std::vector<std::string> allowedNetworks;
  ProxyOptions proxies;
  RdmaOptions rdma;
  TransportFactory transport = PeerTransport::create;  // another one has only in tests
  // The files of one shard's reactor; others than the kernel's only in tests.
  std::function<std::unique_ptr<FileSystem>(Reactor&)> files = kernelFiles;
};

struct EngineStatistics {
  double uptimeSeconds = 0;
  std::string backend;
  std::size_t shards = 0;
  CacheStatistics cache;
  OriginStatistics origin;
  // Of files; what the protocol adds is counted in `peers`.
  std::uint64_t peerBytesReceived = 0, peerBytesSent = 0;
  std::uint64_t peerRequests = 0;
  std::uint64_t digestMismatches = 0;  // files dropped, as they were not what their digest says
  std::uint64_t demandReads = 0, demandBytes = 0, directoryBypassed = 0;
  std::uint64_t directoryUnanswered = 0;
  // Of WILLNEED and DONTNEED, as AdviceCounters.
  std::uint64_t willNeed = 0, willNeedBytes = 0, dontNeed = 0, dontNeedBytes = 0;
  // Through mounts, by the reason why they were answered with an error.
  std::map<ErrorCode, std::uint64_t> failedReads;
  ScrubStatistics scrub;
  std::uint64_t throughBytes = 0;  // came in for readers and could not be kept
  std::size_t buffersInUse = 0;
  struct ArenaUse {
    std::uint64_t bytes = 0, committedBytes = 0, hugeBytes = 0;
    ArenaPages pages;
    bool touchedByHolder = false;  // which is charged for what was committed
    std::string unkept;            // why the holder does not keep it; empty when it does
    ArenaOrigin origin;
    // At the start: of chunks that were whole, and of slots that may not be used.
    std::uint64_t foundBytes = 0, quarantinedBytes = 0;
    // Of chunks that wait for no disk and are given up when memory is needed; and files that were.
    std::uint64_t keptBytes = 0, evictedFiles = 0;
    std::uint64_t movedBytes = 0;   // slots that went from one shard to another
    std::uint64_t loadedBytes = 0;  // that came from cache files
  };
  ArenaUse arena;                    // memory for chunks
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
  // threads; what was written is claimed. Afterwards EventSink is not called. Idempotent.
  void close();

  [[nodiscard]] Reactor& home() { return *commons_.shards.front()->reactor; }
  [[nodiscard]] EngineCommons& commons() { return commons_; }
  [[nodiscard]] std::vector<PeerAddress> addresses() const;

  [[nodiscard]] Task<void> setCluster(std::vector<ClusterMember> members);

  // Any thread. The datasets that clients may name in paths, all of them: as ClientDatasets::name.
  void nameDatasets(std::map<std::string, std::shared_ptr<Dataset>> datasets,
                    std::set<std::string> awaited = {}) {
    commons_.clientDatasets.name(std::move(datasets), std::move(awaited));
  }

  [[nodiscard]] ManifestStore& manifests() { return *manifests_; }
  [[nodiscard]] ContentCalls& contents() { return *contents_; }
  [[nodiscard]] Mounts& mounts() { return *mounts_; }

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
  // Blocks: on a helper's thread.
  [[nodiscard]] Status openArena(const EngineOptions& options);
  void createPools();
  [[nodiscard]] std::vector<std::vector<const ChunkSlot*>> slotParts(std::size_t fewest);
  // On the shard's thread.
  [[nodiscard]] Task<void> adoptChunks(Shard& shard);
  [[nodiscard]] Task<void> adoptChunk(Shard& shard, ChunkBuffer buffer, const SlotContents& found);
  Task<void> commitArena();
  // Tries again while the holder that is to be charged is away; false when it was not done.
  [[nodiscard]] Task<bool> commit(std::size_t first, std::size_t count);
  [[nodiscard]] EngineStatistics::ArenaUse arenaUse() const;
  [[nodiscard]] Status createShard(const EngineOptions& options, std::size_t index);
  [[nodiscard]] Task<Status> startServices(const EngineOptions& options);
  // Before the shards start: opens the ports that their transports read over.
  [[nodiscard]] Task<Status> openRdma(const EngineOptions& options);
  // On the home shard's thread, for a shard that has started: takes the ports out of use that this
  // shard cannot use.
  [[nodiscard]] Status checkRdma(const Shard& shard);
  void refusePort(const RdmaDevice& port, const Error& reason);
  // Has the RDMA ports know the memory for chunks, one after the other; reads into it go over TCP
  // before. An error: none of them does.
  [[nodiscard]] Task<Status> pinArena();
  // When all shards have started: has the memory for chunks committed and pinned, before it returns
  // where RDMA is required, else in the background.
  [[nodiscard]] Task<Status> prepareArena();
  Task<void> prepareArenaMeanwhile();
  // Those of the home shard, when all shards have started.
  void createServices(const EngineOptions& options);
  void createMounting();
  [[nodiscard]] Status serveClientsOfThisNode(const EngineOptions& options);
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
