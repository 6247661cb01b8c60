#include "binding/convert.h"

namespace hearth::convert {

namespace {

Napi::Value big(Napi::Env env, std::uint64_t value) { return Napi::BigInt::New(env, value); }

void addCache(Napi::Object object, const CacheStatistics& cache) {
  const Napi::Env env = object.Env();
  Napi::Array directories = Napi::Array::New(env);
  for (const CacheStatistics::Directory& directory : cache.directories) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("path", directory.path);
    row.Set("budgetBytes", big(env, directory.budgetBytes));
    row.Set("usedBytes", big(env, directory.usedBytes));
    row.Set("freeFloorBytes", big(env, directory.freeFloorBytes));
    row.Set("fileSystemFreeBytes", big(env, directory.fileSystemFreeBytes));
    row.Set("failure", directory.failure);
    Napi::Array waiting = Napi::Array::New(env);
    for (const CacheStatistics::Directory::Waiting& file : directory.waiting)
      waiting.Set(waiting.Length(), file.name.empty() ? file.key.hex() : file.name);
    row.Set("waiting", waiting);
    row.Set("waitingFiles", static_cast<double>(directory.waitingFiles));
    directories.Set(directories.Length(), row);
  }
  object.Set("directories", directories);
  object.Set("contentKeys", big(env, cache.contentKeys));
  object.Set("residentBytes", big(env, cache.residentBytes));
  object.Set("pinnedBytes", big(env, cache.pinnedBytes));
  object.Set("corruptBlocks", big(env, cache.corruptBlocks));
  object.Set("lostLogBytes", big(env, cache.lostLogBytes));
  object.Set("doubtfulFiles", big(env, cache.doubtfulFiles));
  object.Set("evictedFiles", big(env, cache.evictedFiles));
  object.Set("evictedBytes", big(env, cache.evictedBytes));
  Napi::Object copies = Napi::Object::New(env);
  copies.Set("redundant", big(env, cache.redundantCopies));
  copies.Set("last", big(env, cache.lastCopies));
  copies.Set("unanswered", big(env, cache.unansweredCopies));
  copies.Set("unasked", big(env, cache.unaskedCopies));
  copies.Set("kept", big(env, cache.lastCopiesKept));
  object.Set("copies", copies);
}

Napi::Object memoryFilesToJs(Napi::Env env, const MemoryFilesUse& files) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("budgetBytes", big(env, files.room.budgetBytes));
  object.Set("usedBytes", big(env, files.room.usedBytes));
  object.Set("hugeBytes", big(env, files.room.hugeBytes));
  object.Set("files", big(env, files.room.files));
  object.Set("evictedFiles", big(env, files.evictedFiles));
  object.Set("evictedBytes", big(env, files.evictedBytes));
  object.Set("heldFiles", big(env, files.heldFiles));
  object.Set("refusedFiles", big(env, files.refusedFiles));
  object.Set("off", files.off);
  object.Set("failure", files.failure);
  object.Set("noHugePages", files.noHugePages);
  return object;
}

Napi::Object arenaToJs(Napi::Env env, const EngineStatistics::ArenaUse& arena) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", big(env, arena.bytes));
  object.Set("committedBytes", big(env, arena.committedBytes));
  object.Set("hugeBytes", big(env, arena.hugeBytes));
  object.Set("pages", std::string(arenaPageKindName(arena.pages.kind)));
  object.Set("reason", arena.pages.reason);
  object.Set("unplaced", arena.pages.unplaced);
  object.Set("unkept", arena.unkept);
  object.Set("touchedByHolder", arena.touchedByHolder);
  object.Set("adopted", arena.origin.adopted);
  object.Set("givenUp", arena.origin.givenUp);
  object.Set("smaller", arena.origin.smaller);
  object.Set("foundBytes", big(env, arena.foundBytes));
  object.Set("quarantinedBytes", big(env, arena.quarantinedBytes));
  object.Set("keptBytes", big(env, arena.keptBytes));
  object.Set("evictedFiles", big(env, arena.evictedFiles));
  object.Set("movedBytes", big(env, arena.movedBytes));
  object.Set("loadedBytes", big(env, arena.loadedBytes));
  return object;
}

Napi::Object limitClassToJs(Napi::Env env, const BandwidthUse& use) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", big(env, use.bytes));
  object.Set("waitedSeconds", std::chrono::duration<double>(use.waited).count());
  object.Set("waiting", static_cast<double>(use.waiting));
  return object;
}

Napi::Array limitsToJs(Napi::Env env, const std::vector<LimitUse>& all) {
  Napi::Array limits = Napi::Array::New(env);
  for (const LimitUse& limit : all) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("what", limit.what);
    row.Set("total", big(env, limit.configured.total));
    row.Set("warm", big(env, limit.configured.warm));
    Napi::Object classes = Napi::Object::New(env);
    classes.Set("demand", limitClassToJs(env, limit.demand));
    classes.Set("warm", limitClassToJs(env, limit.warm));
    row.Set("classes", classes);
    limits.Set(limits.Length(), row);
  }
  return limits;
}

Napi::Object failedReadsToJs(Napi::Env env, const std::map<ErrorCode, std::uint64_t>& failedReads) {
  Napi::Object object = Napi::Object::New(env);
  for (std::uint16_t code = 1; isErrorCode(code); ++code) {
    const auto reason = static_cast<ErrorCode>(code);
    const auto counted = failedReads.find(reason);
    object.Set(std::string(errorName(reason)),
               big(env, counted == failedReads.end() ? 0 : counted->second));
  }
  return object;
}

Napi::Array originHostsToJs(Napi::Env env, const std::vector<OriginHostStatistics>& all) {
  Napi::Array hosts = Napi::Array::New(env);
  for (const OriginHostStatistics& host : all) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("host", host.host);
    row.Set("parallelism", static_cast<double>(host.parallelism));
    hosts.Set(hosts.Length(), row);
  }
  return hosts;
}

Napi::Array peersToJs(Napi::Env env, const std::vector<PeerStatistics>& all) {
  Napi::Array peers = Napi::Array::New(env);
  for (const PeerStatistics& peer : all) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("node", peer.node);
    row.Set("connected", peer.connected);
    row.Set("streams", peer.streams);
    row.Set("bytesReceived", big(env, peer.bytesReceived));
    row.Set("wireVersion", static_cast<std::uint32_t>(peer.wireVersion));
    row.Set("featuresOff", namesOfFeatures(peer.featuresOff));
    row.Set("hedged", big(env, peer.hedged));
    row.Set("paused", big(env, peer.paused));
    row.Set("error", peer.error);
    row.Set("rdma", rdmaToJs(env, peer));
    peers.Set(peers.Length(), row);
  }
  return peers;
}

Napi::Object clientsToJs(Napi::Env env, const ClientUse& clients) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("limitBytes", big(env, clients.limitBytes));
  object.Set("bytes", big(env, clients.bytes));
  object.Set("waiting", big(env, clients.waiting));
  object.Set("waited", big(env, clients.waited));
  return object;
}

}  // namespace

Napi::Value toJs(Napi::Env env, const SourceSet& set, const std::vector<SourceStatistics>& all) {
  Napi::Array rows = Napi::Array::New(env);
  for (std::size_t source = 0; source < set.sources.size(); ++source) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("name", set.sources[source].name);
    row.Set("bytes", big(env, all[source].bytes));
    row.Set("requests", big(env, all[source].requests));
    row.Set("failures", big(env, all[source].failures));
    row.Set("stragglers", big(env, all[source].stragglers));
    row.Set("unproved", big(env, all[source].unproved));
    row.Set("aside", all[source].aside);
    rows.Set(rows.Length(), row);
  }
  return rows;
}

Napi::Value toJs(Napi::Env env, const EngineStatistics& statistics) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("uptimeSeconds", statistics.uptimeSeconds);
  object.Set("backend", statistics.backend);
  object.Set("shards", static_cast<double>(statistics.shards));
  addCache(object, statistics.cache);
  object.Set("digestMismatches", big(env, statistics.digestMismatches));
  object.Set("scrubBytes", big(env, statistics.scrub.bytes));
  object.Set("scrubBadBlocks", big(env, statistics.scrub.badBlocks));
  object.Set("scrubRepairedChunks", big(env, statistics.scrub.repairedChunks));
  object.Set("scrubLostChunks", big(env, statistics.scrub.lostChunks));
  object.Set("originBytes", big(env, statistics.origin.bytes));
  object.Set("originRequests", big(env, statistics.origin.requests));
  object.Set("originRetries", big(env, statistics.origin.retries));
  object.Set("originHedgedRequests", big(env, statistics.origin.hedgedRequests));
  object.Set("originHedgedBytes", big(env, statistics.origin.hedgedBytes));
  object.Set("originHedgesWon", big(env, statistics.origin.hedgesWon));
  object.Set("originHosts", originHostsToJs(env, statistics.origin.hosts));
  object.Set("peerBytesReceived", big(env, statistics.peerBytesReceived));
  object.Set("peerBytesSent", big(env, statistics.peerBytesSent));
  object.Set("peerRequests", big(env, statistics.peerRequests));
  object.Set("demandReads", big(env, statistics.demandReads));
  object.Set("demandBytes", big(env, statistics.demandBytes));
  object.Set("willNeed", big(env, statistics.willNeed));
  object.Set("willNeedBytes", big(env, statistics.willNeedBytes));
  object.Set("dontNeed", big(env, statistics.dontNeed));
  object.Set("dontNeedBytes", big(env, statistics.dontNeedBytes));
  object.Set("directoryBypassed", big(env, statistics.directoryBypassed));
  object.Set("directoryUnanswered", big(env, statistics.directoryUnanswered));
  object.Set("throughBytes", big(env, statistics.throughBytes));
  object.Set("failedReads", failedReadsToJs(env, statistics.failedReads));
  object.Set("buffersInUse", static_cast<double>(statistics.buffersInUse));
  object.Set("writeBackBytes", big(env, statistics.writeBackBytes));
  object.Set("clients", clientsToJs(env, statistics.clients));
  object.Set("limits", limitsToJs(env, statistics.limits));
  object.Set("arena", arenaToJs(env, statistics.arena));
  object.Set("memoryFiles", memoryFilesToJs(env, statistics.memoryFiles));
  object.Set("longestQueue", static_cast<double>(statistics.longestQueue));
  object.Set("rdma", toJs(env, statistics.rdma));
  object.Set("peers", peersToJs(env, statistics.peers));
  return object;
}

}  // namespace hearth::convert
