#include "engine/engine.h"

#include <pthread.h>

#include <algorithm>

#include "directory/directory_client.h"
#include "directory/directory_service.h"
#include "engine/bounded_log.h"
#include "engine/client_advice.h"
#include "engine/client_volumes.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"
#include "fetch/memory_tier.h"
#include "files/posix_file_system.h"
#include "mount/holder_link.h"
#include "origin/directory_calls.h"
#include "reactor/blocking_call.h"
#include "reactor/time_slice.h"
#include "warm/file_verifier.h"

namespace hearth {
namespace {

constexpr std::size_t kDefaultMaxShards = 8;

}  // namespace

std::unique_ptr<FileSystem> kernelFiles(Reactor& reactor) {
  return std::make_unique<PosixFileSystem>(reactor);
}

Engine::Engine(EventSink events) { commons_.events = withBoundedLog(std::move(events)); }

Engine::~Engine() { close(); }

Result<std::unique_ptr<Engine>> Engine::open(EngineOptions options, EventSink events) {
  std::unique_ptr<Engine> engine(new Engine(std::move(events)));
  const Status started = engine->start(options);
  if (!started.ok()) {
    engine->close();
    return started.error();
  }
  return engine;
}

Status Engine::start(const EngineOptions& options) {
  commons_.self = options.node;
  commons_.limits = std::make_unique<NodeLimits>(options.limits);
  commons_.directories =
      std::make_shared<DirectoryCalls>(kernelOriginFiles(), DirectoryCalls::Limits{});
  if (options.secret.size() < 16) {
    return Error{ErrorCode::kInvalidArgument,
                 "the cluster secret has fewer than 16 bytes; use a longer one"};
  }
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t count =
      options.shards != 0 ? options.shards : std::min(cores, kDefaultMaxShards);
  createHolderLink(options);
  for (std::size_t index = 0; index < count; ++index) {
    const Status created = createShard(options, index);
    if (!created.ok()) return created;
  }
  running_ = true;
  for (std::size_t index = 0; index < count; ++index) {
    Shard& shard = *commons_.shards[index];
    shard.thread = std::thread([reactor = shard.reactor.get()] {
      // Others wait for its answers, while threads beside it copy and compute.
      shortenTimeSlice();
      reactor->run();
    });
    // As top and perf show it.
    pthread_setname_np(shard.thread.native_handle(),
                       ("hearth-shard-" + std::to_string(index)).c_str());
  }
  return runOn(home(), startServices(options));
}

Status Engine::createShard(const EngineOptions& options, std::size_t index) {
  auto shard = std::make_unique<Shard>(commons_);
  shard->index = index;
  auto reactor = Reactor::create();
  if (!reactor.ok()) return reactor.error();
  shard->reactor = std::move(*reactor);
  shard->files = options.files(*shard->reactor);
  shard->gate = std::make_unique<Gate>(*shard->reactor);
  shard->view = std::make_shared<const ClusterView>(options.node, std::vector<ClusterMember>());
  commons_.shards.push_back(std::move(shard));
  return {};
}

Task<Status> Engine::startServices(const EngineOptions& options) {
  std::vector<ShardContext> contexts;
  for (const std::unique_ptr<Shard>& shard : commons_.shards)
    contexts.push_back({*shard->reactor, *shard->files});
  Task<Result<std::unique_ptr<ContentCache>>> opening =
      ContentCache::open(options.cacheDirectories, contexts);
  Result<std::unique_ptr<ContentCache>> cache = co_await opening;
  if (!cache.ok()) co_return cache.error();
  commons_.cache = std::move(*cache);
  for (std::string& note : commons_.cache->recoveryNotes())
    commons_.log(EngineEvent::Level::kWarn, std::move(note), {});
  // After the cache, whose lock a former agent holds until it ends: by then that agent uses the
  // arena no more. A cache that cannot be opened leaves the arena with the holder.
  const Status memory = co_await home().offload([this, &options] { return openArena(options); });
  if (!memory.ok()) co_return memory;
  co_await openMemoryFiles(options, std::move(contexts));
  createPools();
  Task<Status> openingRdma = openRdma(options);
  if (const Status rdma = co_await openingRdma; !rdma.ok()) co_return rdma;
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    Status started = co_await startShard(options, *shard);
    co_await home().enter();
    if (started.ok()) started = checkRdma(*shard);
    if (!started.ok()) co_return started;
    commons_.lanes.push_back({*shard->reactor, *shard->origin, *shard->transport});
  }
  Task<Status> preparing = prepareArena();
  if (const Status prepared = co_await preparing; !prepared.ok()) co_return prepared;
  createServices(options);
  leave_.start(home());
  commons_.cache->setClusterCopies(&leave_);
  for (const PeerAddress& address : options.listen) {
    std::function<void(std::uint32_t, int)> adopt = [this](std::uint32_t shard, int socket) {
      commons_.shards[shard % commons_.shards.size()]->transport->adopt(socket);
    };
    auto listener = Listener::create(home(), address, std::move(adopt));
    if (!listener.ok()) co_return listener.error();
    listeners_.push_back(std::move(*listener));
  }
  const Status local = co_await serveClientsOfThisNode(options);
  if (!local.ok()) co_return local;
  scrubber_->start();
  co_return Status();
}

void Engine::createServices(const EngineOptions& options) {
  Shard& shard = *commons_.shards.front();
  manifests_ = std::make_unique<ManifestStore>(
      ManifestPorts{*shard.reactor, commons_.cache->files(), commons_.wholeFiles, shard.view,
                    *shard.transport, commons_.cache->manifestDirectory(), commons_.events});
  commons_.warming = std::make_unique<WarmPorts>(
      WarmPorts{*commons_.cache, commons_.wholeFiles, commons_.events, {}});
  for (const std::unique_ptr<Shard>& each : commons_.shards) {
    commons_.warming->shards.push_back({*each->reactor, *each->gate, *each->fetcher,
                                        *each->verifier, *each->directory, *each->filling});
  }
  contents_ = std::make_unique<ContentCalls>(commons_, shard);
  createMounting();
  commons_.advices = std::make_unique<ClientAdvices>(*commons_.mounting);
  mounts_ = std::make_unique<Mounts>(*commons_.mounting, *manifests_);
  std::vector<std::string> folders;
  for (const CacheDirectoryOptions& directory : options.cacheDirectories) {
    folders.push_back(directory.path);
  }
  commons_.volumes =
      std::make_unique<VolumeCalls>(commons_, shard, std::move(folders), options.volumeTails);
  commons_.clientVolumes = std::make_unique<ClientVolumes>(commons_, *commons_.volumes);
  scrubber_ = std::make_unique<Scrubber>(*commons_.warming, *manifests_, options.scrub);
}

void Engine::createMounting() {
  MountPorts::LetGoOfFile letGoOfFile = [calls = contents_.get()](std::shared_ptr<Dataset> dataset,
                                                                  std::uint32_t entry, LetGo what) {
    return calls->letGoOfFile(std::move(dataset), entry, what);
  };
  commons_.mounting = std::make_unique<MountPorts>(MountPorts{commons_.self,
                                                              *commons_.cache,
                                                              *commons_.memoryFiles,
                                                              *commons_.warming,
                                                              std::move(letGoOfFile),
                                                              commons_.counters.demand,
                                                              commons_.counters.advice,
                                                              commons_.failedReads,
                                                              commons_.withdrawn,
                                                              commons_.events,
                                                              commons_.holder,
                                                              {}});
  for (const std::unique_ptr<Shard>& each : commons_.shards) {
    commons_.mounting->shards.push_back(std::make_unique<MountShard>(
        *commons_.mounting, *each->reactor, *each->gate, *each->fetcher, *each->filling,
        *each->originBuffers, *each->peerBuffers));
  }
}

Task<Status> Engine::serveClientsOfThisNode(const EngineOptions& options) {
  if (options.clientSocket.empty()) co_return Status();
  std::vector<CacheDirectoryOptions> directories = options.cacheDirectories;
  if (commons_.memoryFiles->enabled()) directories.push_back({commons_.memoryFiles->path(), 0, 0});
  co_await localFiles_.passFrom(std::move(directories));
  LocalServerOptions local{options.clientSocket, options.node,
                           options.incarnation,  options.cluster,
                           options.secret,       LocalFiles::openBytes(options.cacheDirectories)};
  auto server = LocalServer::listen(home(), std::move(local), localFiles_);
  if (!server.ok()) co_return server.error();
  localServer_ = std::move(*server);
  co_return Status();
}

Task<Status> Engine::startShard(const EngineOptions& options, Shard& shard) {
  co_await shard.reactor->enter();
  OriginOptions origin;
  origin.connections = std::max<std::size_t>(1, options.originConnections / commons_.shards.size());
  origin.certificateAuthorities = options.certificateAuthorities;
  origin.forbidPrivateAddresses = options.forbidPrivateAddresses;
  origin.allowedNetworks = options.allowedNetworks;
  origin.proxies = options.proxies;
  origin.floorTimeout = options.originFloorTimeout;
  origin.directories = commons_.directories;
  auto client = OriginClient::create(*shard.reactor, std::move(origin));
  if (!client.ok()) co_return client.error();
  shard.origin = std::move(*client);
  shard.peerService = std::make_unique<PeerService>(shard);
  TransportOptions transport;
  transport.node = options.node;
  transport.incarnation = options.incarnation;
  transport.cluster = options.cluster;
  transport.secret = options.secret;
  transport.shard = static_cast<std::uint32_t>(shard.index);
  transport.shards = static_cast<std::uint32_t>(commons_.shards.size());
  transport.rdma = rdma_.inUse();
  transport.offer.features |= static_cast<std::uint64_t>(WireFeature::kVolumes);
  transport.offer.features |= static_cast<std::uint64_t>(WireFeature::kWrites);
  for (const ArenaRegion& region : commons_.arena->regions())
    transport.arena.push_back(region.memory);
  shard.transport = options.transport(*shard.reactor, std::move(transport), *shard.peerService);
  shard.wanted = std::make_unique<WantedKeys>(*commons_.cache);
  const DirectoryPorts ports{commons_.self,
                             *shard.reactor,
                             *shard.gate,
                             shard.view,
                             *shard.transport,
                             *shard.wanted,
                             commons_.counters.directory};
  shard.directoryService = std::make_unique<DirectoryService>(ports);
  shard.directory = std::make_unique<DirectoryClient>(ports, *shard.directoryService);
  shard.releases = std::make_unique<CopyReleases>(ports, *shard.directoryService);
  shard.leave = std::make_unique<ReleaseClient>(ports, *shard.releases, *shard.directory);
  shard.lanes = std::make_unique<ByteLanes>(commons_.lanes, shard.index);
  shard.fetcher = std::make_unique<Fetcher>(FetchPorts{
      *shard.reactor, *shard.gate, *commons_.cache, *shard.wanted, *shard.originBuffers,
      *shard.peerBuffers, *shard.memory, *shard.directory, *shard.lanes, *commons_.limits,
      commons_.refusals, commons_.throughReads, commons_.counters.fetched, commons_.events});
  shard.verifier = std::make_unique<FileVerifier>(VerifierPorts{
      *shard.reactor, *shard.gate, *shard.fetcher, *shard.originBuffers, commons_.wholeFiles,
      commons_.refusals, commons_.withdrawn, commons_.counters.digestMismatches, commons_.events});
  shard.filling = std::make_unique<MemoryFilling>(
      MemoryFilling::Ports{*shard.reactor, *shard.gate, *commons_.memoryFiles, *shard.memory,
                           *commons_.limits, !rdma_.inUse().empty()});
  shard.fetcher->addObserver(*shard.filling);
  shard.gate->spawn(adoptChunks(shard));
  co_return Status();
}

std::vector<PeerAddress> Engine::addresses() const {
  std::vector<PeerAddress> addresses;
  for (const std::unique_ptr<Listener>& listener : listeners_)
    addresses.push_back(listener->address());
  return addresses;
}

Status Engine::warm(WarmOptions options) {
  const std::string name = options.job;
  const auto job = std::make_shared<WarmJob>(std::move(options));
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.emplace(name, job).second) {
      return Error{ErrorCode::kAlreadyExists,
                   "a warm job named " + name + " is known already; choose another name"};
    }
  }
  if (job->options().advised) {
    commons_.counters.advice.willNeed.fetch_add(1);
    commons_.counters.advice.willNeedBytes.fetch_add(job->progress().bytesTotal);
  }
  Shard& shard = *commons_.shards.front();
  home().post([this, &shard, job] { shard.gate->spawn(WarmJob::run(job, *commons_.warming)); });
  return {};
}

std::shared_ptr<WarmJob> Engine::findJob(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  return found == jobs_.end() ? nullptr : found->second;
}

Status Engine::cancelWarm(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(name);
  if (found == jobs_.end())
    return Error{ErrorCode::kNotFound, "no warm job named " + name + " is known here"};
  const WarmState state = found->second->progress().state;
  if (state == WarmState::kRunning || state == WarmState::kVerifying) {
    found->second->cancel();
  } else {
    jobs_.erase(found);
  }
  return {};
}

void Engine::close() {
  if (!std::exchange(running_, false)) return;
  commons_.limits->cancel();  // nobody waits for a limit any more
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, job] : jobs_) job->cancel();
  }
  struct Wrap {
    static Task<bool> run(Engine& engine) {
      co_await engine.stopServices();
      co_return true;
    }
  };
  runOn(home(), Wrap::run(*this));
  joinThreads();
  // Nothing uses the arena any more, and no mount is served.
  commons_.holder->close();
  jobs_.clear();
  listeners_.clear();
  localServer_.reset();
  scrubber_.reset();
  mounts_.reset();
  contents_.reset();
  manifests_.reset();
  commons_.clientVolumes.reset();
  commons_.volumes.reset();
  commons_.warming.reset();
  commons_.cache.reset();
}

// Closes mounts first: a read would fail if a service below refused it at its end, instead of
// waiting for the next agent.
Task<void> Engine::stopServices() {
  if (mounts_ != nullptr) {  // with them all other services
    co_await mounts_->close();
    commons_.advices->close();
    co_await scrubber_->close();
    manifests_->close();
  }
  for (const std::unique_ptr<Listener>& listener : listeners_) {
    co_await listener->close();
  }
  if (localServer_ != nullptr) co_await localServer_->close();
  if (commons_.volumes != nullptr) co_await commons_.volumes->close();
  if (commons_.cache != nullptr) commons_.cache->setClusterCopies(nullptr);
  leave_.stop();
  // Keeps chunks in memory where they are, for the next process.
  commons_.exchange.close();
  // All shards at once: work on one may wait for a fetch on another.
  Gate shards(home());
  for (const std::unique_ptr<Shard>& shard : commons_.shards) shards.spawn(stopShard(*shard));
  co_await shards.close();
  if (commons_.cache != nullptr) {
    co_await commons_.cache->close();
    co_await home().enter();
  }
  if (commons_.memoryFiles != nullptr) {
    co_await commons_.memoryFiles->close();
    co_await home().enter();
  }
}

// The parts of a shard wait for one another: coroutines behind the gate wait for the origin and for
// peers, and the transport waits for its callers and for requests of peers, which may wait for the
// origin. So first nothing new begins, then all work is broken off, and only then waited for.
Task<void> Engine::stopShard(Shard& shard) {
  co_await shard.reactor->enter();
  {
    Gate parts(*shard.reactor);
    parts.spawn(shard.gate->close());
    if (shard.origin != nullptr) parts.spawn(shard.origin->close());
    if (shard.transport != nullptr) parts.spawn(shard.transport->close());
    co_await parts.close();
  }
  if (shard.slots != nullptr) {
    shard.slots->leaveIndex();
    shard.memory->clear();
  }
  if (shard.peerService != nullptr) shard.peerService->smallReads().clear();
  co_await home().enter();
}

void Engine::joinThreads() {
  for (const std::unique_ptr<Shard>& shard : commons_.shards) shard->reactor->stop();
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    if (shard->thread.joinable()) shard->thread.join();
  }
}

}  // namespace hearth
