// Engine: its RDMA ports, and the memory that they know. A port that fails here leaves the others.
#include "engine/engine.h"

namespace hearth {

Task<Status> Engine::openRdma(const EngineOptions& options) {
  auto open = [&options] { return RdmaPorts::open(options.rdma); };
  Result<RdmaPorts> opened = co_await home().offload(open);
  if (!opened.ok()) co_return opened.error();
  rdma_ = std::move(*opened);
  const RdmaStatistics rdma = rdma_.statistics();
  if (!rdma.reason.empty()) {
    commons_.log(EngineEvent::Level::kInfo,
                 "agents are read from over TCP, not over RDMA: " + rdma.reason);
  }
  for (const RdmaStatistics::Port& port : rdma.ports) {
    if (port.used)
      commons_.log(EngineEvent::Level::kInfo, "agents are read from over RDMA where they can be",
                   {{"port", port.name}, {"link", port.link}, {"gid", port.gid}});
  }
  co_return Status();
}

Status Engine::checkRdma(const Shard& shard) {
  for (const std::shared_ptr<RdmaDevice>& port : rdma_.inUse()) {
    const Status usable = shard.transport->rdmaStatus(*port);
    if (!usable.ok()) refusePort(*port, usable.error());
  }
  const Status usable = rdma_.usable();
  if (!usable.ok() && rdma_.use() == RdmaUse::kRequired) return RdmaPorts::required(usable.error());
  return {};
}

void Engine::refusePort(const RdmaDevice& port, const Error& reason) {
  rdma_.refuse(port, reason);
  commons_.log(EngineEvent::Level::kWarn, "no reads go over the RDMA port " +
                                              std::string(port.name()) + ": " + reason.message);
}

Task<Status> Engine::pinArena() {
  for (const std::shared_ptr<RdmaDevice>& port : rdma_.inUse()) {
    auto pin = [port, regions = commons_.arena->regions()] {
      return RdmaPorts::pin(port, regions);
    };
    const Status pinned = co_await home().offload(commons_.wholeFiles, pin);
    if (pinned.ok()) {
      rdma_.notePinned(*port);
    } else {
      refusePort(*port, pinned.error());
    }
    if (commons_.shards.front()->gate->closed()) break;
  }
  co_return rdma_.usable();
}

Task<Status> Engine::prepareArena() {
  if (rdma_.use() != RdmaUse::kRequired) {
    commons_.shards.front()->gate->spawn(prepareArenaMeanwhile());
    co_return Status();
  }
  // Commits memory as the party that is to be charged, before the port makes the kernel bring all
  // pages.
  Arena& arena = *commons_.arena;
  auto commit = [&arena] { return arena.commit(0, arena.slots()); };
  Status ready = co_await home().offload(commons_.wholeFiles, commit);
  if (ready.ok()) {
    Task<Status> pinning = pinArena();
    ready = co_await pinning;
  }
  if (!ready.ok()) co_return RdmaPorts::required(ready.error());
  co_return Status();
}

Task<void> Engine::prepareArenaMeanwhile() {
  Task<void> committing = commitArena();
  co_await committing;
  const Gate& gate = *commons_.shards.front()->gate;
  if (gate.closed() || rdma_.inUse().empty()) co_return;
  Task<Status> pinning = pinArena();
  const Status pinned = co_await pinning;
  if (pinned.ok()) co_return;
  commons_.log(EngineEvent::Level::kWarn,
               "agents are read from over TCP, not over RDMA: " + pinned.error().message);
}

}  // namespace hearth
