#include "binding/convert.h"
#include "binding/fields.h"

namespace hearth::convert {

namespace {

Napi::Value big(Napi::Env env, std::uint64_t value) { return Napi::BigInt::New(env, value); }

void addCache(Napi::Object object, const CacheStatistics& cache) {
  const Napi::Env env = object.Env();
  const auto toRow = [env](const CacheStatistics::Directory& directory) {
    Napi::Object row = Napi::Object::New(env);
    SET_FIELDS(row, directory, path, budgetBytes, usedBytes, freeFloorBytes, fileSystemFreeBytes,
               failure);
    row.Set("waiting", arrayOf(env, directory.waiting, [](const auto& file) {
              return file.name.empty() ? file.key.hex() : file.name;
            }));
    row.Set("waitingFiles", static_cast<double>(directory.waitingFiles));
    return row;
  };
  object.Set("directories", arrayOf(env, cache.directories, toRow));
  SET_FIELDS(object, cache, contentKeys, residentBytes, pinnedBytes, corruptBlocks, lostLogBytes,
             doubtfulFiles, evictedFiles, evictedBytes);
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
  SET_FIELDS(object, files.room, budgetBytes, usedBytes, hugeBytes, files);
  SET_FIELDS(object, files, evictedFiles, evictedBytes, heldFiles, refusedFiles, off, failure,
             noHugePages);
  return object;
}

Napi::Object arenaToJs(Napi::Env env, const EngineStatistics::ArenaUse& arena) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, arena, bytes, committedBytes, hugeBytes);
  object.Set("pages", std::string(arenaPageKindName(arena.pages.kind)));
  SET_FIELDS(object, arena.pages, reason, unplaced);
  SET_FIELDS(object, arena, unkept, touchedByHolder);
  SET_FIELDS(object, arena.origin, adopted, givenUp, smaller);
  SET_FIELDS(object, arena, foundBytes, quarantinedBytes, keptBytes, evictedFiles, movedBytes,
             loadedBytes);
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
  return arrayOf(env, all, [env](const LimitUse& limit) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("what", limit.what);
    SET_FIELDS(row, limit.configured, total, warm);
    Napi::Object classes = Napi::Object::New(env);
    classes.Set("demand", limitClassToJs(env, limit.demand));
    classes.Set("warm", limitClassToJs(env, limit.warm));
    row.Set("classes", classes);
    return row;
  });
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
  return arrayOf(env, all, [env](const OriginHostStatistics& host) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("host", host.host);
    row.Set("parallelism", static_cast<double>(host.parallelism));
    return row;
  });
}

Napi::Array peersToJs(Napi::Env env, const std::vector<PeerStatistics>& all) {
  return arrayOf(env, all, [env](const PeerStatistics& peer) {
    Napi::Object row = Napi::Object::New(env);
    SET_FIELDS(row, peer, node, connected, streams, bytesReceived);
    row.Set("wireVersion", static_cast<std::uint32_t>(peer.wireVersion));
    row.Set("featuresOff", namesOfFeatures(peer.featuresOff));
    SET_FIELDS(row, peer, hedged, paused, error);
    row.Set("rdma", rdmaToJs(env, peer));
    return row;
  });
}

Napi::Object clientsToJs(Napi::Env env, const ClientUse& clients) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, clients, limitBytes, bytes, waiting, waited);
  return object;
}

}  // namespace

Napi::Value toJs(Napi::Env env, const SourceSet& set, const std::vector<SourceStatistics>& all) {
  Napi::Array rows = Napi::Array::New(env);
  for (std::size_t source = 0; source < set.sources.size(); ++source) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("name", set.sources[source].name);
    SET_FIELDS(row, all[source], bytes, requests, failures, stragglers, unproved, aside);
    rows.Set(rows.Length(), row);
  }
  return rows;
}

Napi::Value toJs(Napi::Env env, const EngineStatistics& statistics) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, statistics, uptimeSeconds, backend);
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
  SET_FIELDS(object, statistics, peerBytesReceived, peerBytesSent, peerRequests, demandReads,
             demandBytes, willNeed, willNeedBytes, dontNeed, dontNeedBytes, directoryBypassed,
             directoryUnanswered, throughBytes);
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
