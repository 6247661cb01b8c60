// Between JavaScript values and the engine's types, field by field as native/binding/src/engine.ts
// declares them. On the JavaScript thread. Reading throws Napi::Error (TypeError) naming the field.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace hearth::convert {

// Reading.
[[nodiscard]] EngineOptions engineOptions(const Napi::Object& from);
[[nodiscard]] std::vector<ClusterMember> members(const Napi::Array& from);
[[nodiscard]] Sha256Digest digest(const Napi::Value& from);
[[nodiscard]] std::uint32_t entry(const Napi::Value& from);
[[nodiscard]] std::uint32_t sourceIndex(const Napi::Object& of);  // 0 when there is none
[[nodiscard]] EntryList entryList(const Napi::Value& from);
[[nodiscard]] std::uint64_t unsigned64(const Napi::Value& from, const char* name);
[[nodiscard]] std::string text(const Napi::Object& from, const char* name);
[[nodiscard]] std::vector<std::string> texts(const Napi::Value& from, const char* name);
[[nodiscard]] ManifestRow manifestRow(const Napi::Object& from);
[[nodiscard]] Location location(const Napi::Object& from);
[[nodiscard]] ProxyOptions proxyOptions(const Napi::Object& from);
[[nodiscard]] Error error(const Napi::Object& from);
[[nodiscard]] RdmaOptions rdmaOptions(const Napi::Value& from);  // off when it is undefined
[[nodiscard]] Verification verification(const std::string& name);
[[nodiscard]] MountOptions::Path mountPath(const std::string& name);
[[nodiscard]] tree::WideId wideId(const Napi::Value& from, const char* name);
[[nodiscard]] std::vector<VolumeOptions> volumes(const Napi::Value& from);
[[nodiscard]] std::optional<LeaderClient::Leader> volumeLeader(const Napi::Value& from);
[[nodiscard]] VolumeLease volumeLease(const Napi::Value& from);
[[nodiscard]] VolumeFollowers volumeFollowers(const Napi::Value& from);

// Making.
[[nodiscard]] Napi::Value toJs(Napi::Env env, const Error& error);  // an Error with `code`
[[nodiscard]] Napi::Value toJs(Napi::Env env, const Manifest& manifest);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const WarmProgress& progress);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const Residency& residency);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const Evicted& evicted);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const Verified& verified);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const MountInfo& mount);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const SourceSet& set,
                               const std::vector<SourceStatistics>& all);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const EngineStatistics& statistics);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const RdmaStatistics& rdma);
[[nodiscard]] Napi::Value rdmaToJs(Napi::Env env, const PeerStatistics& peer);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const std::vector<PeerAddress>& addresses);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const EngineEvent& event);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const VolumeStatistics& volume);
[[nodiscard]] Napi::Value toJs(Napi::Env env, const NodeLogPosition& position);
// One row of Engine.entries().
[[nodiscard]] Napi::Value entryToJs(Napi::Env env, const Manifest& manifest, std::uint32_t index,
                                    std::uint64_t residentBytes);

}  // namespace hearth::convert
