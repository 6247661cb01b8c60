// Engine: what it counts, and what waits.
#include <algorithm>
#include <map>

#include "engine/engine.h"
#include "fetch/wanted_keys.h"

namespace hearth {
namespace {

// On the shard, the files that it owns; one that programs have by a view alone keeps no name.
void nameWaitingFiles(Shard& shard, std::vector<CacheStatistics::Directory>& directories) {
  for (CacheStatistics::Directory& directory : directories) {
    for (CacheStatistics::Directory::Waiting& file : directory.waiting) {
      const std::shared_ptr<KeyFetch> wanted = shard.wanted->find(file.key);
      if (wanted == nullptr) continue;
      for (const std::weak_ptr<FileFetch>& each : wanted->files) {
        if (const auto fetch = each.lock())
          file.name = fetch->reference.dataset->id + ":" + fetch->reference.path();
      }
    }
  }
}

}  // namespace

Task<EngineStatistics> Engine::statistics() {
  EngineStatistics statistics;
  statistics.uptimeSeconds = std::chrono::duration<double>(Clock::now() - started_).count();
  statistics.backend = home().backendName();
  statistics.shards = commons_.shards.size();
  statistics.cache = commons_.cache->statistics();
  statistics.arena = arenaUse();
  statistics.memoryFiles = commons_.memoryFiles->use();
  statistics.limits = commons_.limits->uses();
  std::map<std::string, PeerStatistics> peers;
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    co_await shard->reactor->enter();
    statistics.origin.add(shard->origin->statistics());
    statistics.longestQueue = std::max(statistics.longestQueue, shard->reactor->longestQueue());
    statistics.buffersInUse += shard->peerBuffers->inUse() + shard->originBuffers->inUse();
    statistics.writeBackBytes += shard->fetcher->writeBackBytes();
    statistics.clients.add(shard->clientTransit->use());
    nameWaitingFiles(*shard, statistics.cache.directories);
    for (const PeerStatistics& peer : shard->transport->statistics()) {
      peers[peer.node].add(peer);
    }
  }
  co_await home().enter();
  statistics.rdma = rdma_.statistics();
  for (auto& [node, peer] : peers) {
    statistics.peerRequests += peer.requests;
    statistics.peers.push_back(std::move(peer));
  }
  const EngineCounters& counters = commons_.counters;
  statistics.peerBytesReceived = counters.fetched.peerBytes.load();
  statistics.peerBytesSent = counters.servedBytes.load();
  statistics.failedReads = commons_.failedReads.counts();
  statistics.scrub = scrubber_->statistics();
  statistics.digestMismatches = counters.digestMismatches.load();
  statistics.throughBytes = commons_.throughReads.bytes();
  statistics.demandReads = counters.demand.reads.load();
  statistics.demandBytes = counters.demand.bytes.load();
  statistics.willNeed = counters.advice.willNeed.load();
  statistics.willNeedBytes = counters.advice.willNeedBytes.load();
  statistics.dontNeed = counters.advice.dontNeed.load();
  statistics.dontNeedBytes = counters.advice.dontNeedBytes.load();
  statistics.directoryBypassed = counters.directory.bypassed.load();
  statistics.directoryUnanswered = counters.directory.unanswered.load();
  co_return statistics;
}

}  // namespace hearth
