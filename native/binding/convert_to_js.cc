#include "binding/convert.h"

namespace hearth::convert {
namespace {

Napi::Value big(Napi::Env env, std::uint64_t value) { return Napi::BigInt::New(env, value); }

const char* kindName(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile:
      return "file";
    case EntryKind::kDirectory:
      return "directory";
    case EntryKind::kSymlink:
      return "symlink";
  }
  return "file";
}

const char* stateName(WarmState state) {
  switch (state) {
    case WarmState::kRunning:
      return "running";
    case WarmState::kVerifying:
      return "verifying";
    case WarmState::kSucceeded:
      return "succeeded";
    case WarmState::kFailed:
      return "failed";
    case WarmState::kCancelled:
      return "cancelled";
  }
  return "failed";
}

const char* levelName(EngineEvent::Level level) {
  switch (level) {
    case EngineEvent::Level::kDebug:
      return "debug";
    case EngineEvent::Level::kInfo:
      return "info";
    case EngineEvent::Level::kWarn:
      return "warn";
    case EngineEvent::Level::kError:
      return "error";
  }
  return "error";
}

// The code's name travels as `code`; TypeScript makes a HearthError of it.
Napi::Object errorObject(Napi::Env env, const Error& error) {
  Napi::Object object = Napi::Error::New(env, error.message).Value();
  object.Set("code", std::string(errorName(error.code)));
  return object;
}

}  // namespace

Napi::Value toJs(Napi::Env env, const Error& error) { return errorObject(env, error); }

Napi::Value toJs(Napi::Env env, const Manifest& manifest) {
  const ManifestTotals totals = manifest.totals();
  Napi::Object object = Napi::Object::New(env);
  object.Set("digest", hexOf(manifest.digest()));
  object.Set("entries", totals.entries);
  object.Set("files", totals.files);
  object.Set("directories", totals.directories);
  object.Set("symlinks", totals.symlinks);
  object.Set("bytes", big(env, totals.bytes));
  return object;
}

Napi::Value entryToJs(Napi::Env env, const Manifest& manifest, std::uint32_t index,
                      std::uint64_t residentBytes) {
  const ManifestEntry entry = manifest.entry(index);
  const bool file = entry.kind == EntryKind::kFile;
  Napi::Object object = Napi::Object::New(env);
  object.Set("index", index);
  object.Set("path", manifest.path(index));
  object.Set("kind", kindName(entry.kind));
  object.Set("size", big(env, entry.size));
  object.Set("contentKey", file ? entry.key.hex() : std::string());
  object.Set("sourceDigest", entry.sourceDigest ? hexOf(*entry.sourceDigest) : std::string());
  object.Set("validator", std::string(entry.validator));
  object.Set("symlinkTarget", std::string(entry.symlinkTarget));
  object.Set("executable", entry.executable);
  object.Set("residentBytes", big(env, residentBytes));
  return object;
}

Napi::Value toJs(Napi::Env env, const WarmProgress& progress) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("state", stateName(progress.state));
  object.Set("bytesTotal", big(env, progress.bytesTotal));
  object.Set("bytesReady", big(env, progress.bytesReady));
  object.Set("bytesInMemory", big(env, progress.bytesInMemory));
  object.Set("filesTotal", progress.filesTotal);
  object.Set("filesReady", progress.filesReady);
  object.Set("filesVerified", progress.filesVerified);
  object.Set("originBytes", big(env, progress.originBytes));
  object.Set("peerBytes", big(env, progress.peerBytes));
  object.Set("bytesVerified", big(env, progress.bytesVerified));
  object.Set("waitingFor", progress.waitingFor);
  if (progress.error) {
    Napi::Object error = Napi::Object::New(env);
    error.Set("code", std::string(errorName(progress.error->code)));
    error.Set("message", progress.error->message);
    object.Set("error", error);
  }
  return object;
}

Napi::Value toJs(Napi::Env env, const Residency& residency) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytesTotal", big(env, residency.bytesTotal));
  object.Set("bytesResident", big(env, residency.bytesResident));
  object.Set("bytesInMemory", big(env, residency.bytesInMemory));
  object.Set("bytesComingToMemory", big(env, residency.bytesComingToMemory));
  object.Set("filesTotal", residency.filesTotal);
  object.Set("filesComplete", residency.filesComplete);
  object.Set("viewPath", residency.viewPath);
  return object;
}

Napi::Value toJs(Napi::Env env, const Evicted& evicted) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytesFreed", big(env, evicted.bytesFreed));
  object.Set("filesFreed", evicted.filesFreed);
  object.Set("memoryBytesFreed", big(env, evicted.memoryBytes));
  object.Set("kept", evicted.kept());
  object.Set("pinned", evicted.pinned);
  object.Set("inUse", evicted.inUse);
  object.Set("published", evicted.published);
  return object;
}

Napi::Value toJs(Napi::Env env, const Verified& verified) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", big(env, verified.bytes));
  object.Set("sha256", hexOf(verified.sha256));
  object.Set("originBytes", big(env, verified.originBytes));
  object.Set("peerBytes", big(env, verified.peerBytes));
  object.Set("repairedBlocks", big(env, verified.repairedBlocks));
  object.Set("repaired", verified.repaired);
  return object;
}

Napi::Value toJs(Napi::Env env, const MountInfo& mount) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("target", mount.target);
  object.Set("manifest", mount.volume ? std::string() : hexOf(mount.manifest));
  object.Set("source", mount.source);
  object.Set("dataPath", mount.dataPath);
  object.Set("reason", mount.reason);
  object.Set("readsServed", big(env, mount.readsServed));
  object.Set("bytesServed", big(env, mount.bytesServed));
  object.Set("passthroughOpens", big(env, mount.passthroughOpens));
  object.Set("daemonOpens", big(env, mount.daemonOpens));
  return object;
}

Napi::Value toJs(Napi::Env env, const std::vector<PeerAddress>& addresses) {
  Napi::Array array = Napi::Array::New(env);
  for (const PeerAddress& address : addresses) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("host", address.host);
    row.Set("port", address.port);
    array.Set(array.Length(), row);
  }
  return array;
}

Napi::Value toJs(Napi::Env env, const EngineEvent& event) {
  Napi::Object object = Napi::Object::New(env);
  switch (event.kind) {
    case EngineEvent::Kind::kLocations: {
      object.Set("kind", "locations");
      object.Set("manifest", hexOf(event.manifest));
      object.Set("dataset", event.dataset);
      object.Set("source", event.source);
      Napi::Array entries = Napi::Array::New(env);
      for (const std::uint32_t entry : event.entries) entries.Set(entries.Length(), entry);
      object.Set("entries", entries);
      Napi::Array ahead = Napi::Array::New(env);
      for (const std::uint32_t entry : event.ahead) ahead.Set(ahead.Length(), entry);
      object.Set("ahead", ahead);
      break;
    }
    case EngineEvent::Kind::kLog: {
      object.Set("kind", "log");
      object.Set("level", levelName(event.level));
      object.Set("message", event.message);
      Napi::Object fields = Napi::Object::New(env);
      for (const auto& [name, value] : event.fields) fields.Set(name, value);
      object.Set("fields", fields);
      break;
    }
    case EngineEvent::Kind::kOriginChanged:
      object.Set("kind", "originChanged");
      object.Set("manifest", hexOf(event.manifest));
      object.Set("dataset", event.dataset);
      object.Set("entry", event.entries.empty() ? 0u : event.entries.front());
      object.Set("message", event.message);
      break;
    case EngineEvent::Kind::kMountEnded:
      object.Set("kind", "mountEnded");
      object.Set("target", event.target);
      object.Set("message", event.message);
      break;
  }
  return object;
}

}  // namespace hearth::convert
