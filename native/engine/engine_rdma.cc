// Engine: its RDMA ports, and the memory that they know.
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
  const Status usable = shard.transport->rdmaStatus();
  rdma_.note(usable);
  if (!usable.ok() && rdma_.use() == RdmaUse::kRequired) return RdmaPorts::required(usable.error());
  return {};
}

Task<Status> Engine::pinArena() {
  const std::shared_ptr<Device> port = rdma_.port();
  if (port == nullptr) co_return Status();
  auto pin = [port, regions = commons_.arena->regions()] { return RdmaPorts::pin(port, regions); };
  Status pinned = co_await home().offload(commons_.wholeFiles, pin);
  rdma_.note(pinned);
  if (pinned.ok()) rdma_.notePinned();
  co_return pinned;
}

Task<Status> Engine::prepareArena() {
  if (rdma_.use() != RdmaUse::kRequired) {
    commons_.shards.front()->gate->spawn(prepareArenaMeanwhile());
    co_return Status();
  }
  // Committed by the one that is to be charged, before the port has the kernel bring all pages.
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
  if (gate.closed() || rdma_.port() == nullptr) co_return;
  Task<Status> pinning = pinArena();
  const Status pinned = co_await pinning;
  if (pinned.ok()) co_return;
  commons_.log(EngineEvent::Level::kWarn,
               "agents are read from over TCP, not over RDMA: " + pinned.error().message);
}

}  // namespace hearth
