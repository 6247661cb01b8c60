#include <functional>

#include "binding/convert.h"
#include "binding/fields.h"

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
  SET_FIELDS(object, totals, entries, files, directories, symlinks, bytes);
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
  SET_FIELDS(object, progress, bytesTotal, bytesReady, bytesInMemory, filesTotal, filesReady,
             filesVerified, originBytes, peerBytes, bytesVerified, waitingFor);
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
  SET_FIELDS(object, residency, bytesTotal, bytesResident, bytesInMemory, bytesComingToMemory,
             filesTotal, filesComplete, viewPath);
  return object;
}

Napi::Value toJs(Napi::Env env, const Evicted& evicted) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, evicted, bytesFreed, filesFreed);
  object.Set("memoryBytesFreed", big(env, evicted.memoryBytes));
  object.Set("kept", evicted.kept());
  SET_FIELDS(object, evicted, pinned, inUse, published);
  return object;
}

Napi::Value toJs(Napi::Env env, const Verified& verified) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", big(env, verified.bytes));
  object.Set("sha256", hexOf(verified.sha256));
  SET_FIELDS(object, verified, originBytes, peerBytes, repairedBlocks, repaired);
  return object;
}

Napi::Value toJs(Napi::Env env, const MountInfo& mount) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("target", mount.target);
  object.Set("manifest", mount.volume ? std::string() : hexOf(mount.manifest));
  SET_FIELDS(object, mount, source, dataPath, reason, readsServed, bytesServed, passthroughOpens,
             daemonOpens);
  return object;
}

Napi::Value toJs(Napi::Env env, const std::vector<PeerAddress>& addresses) {
  return arrayOf(env, addresses, [env](const PeerAddress& address) {
    Napi::Object row = Napi::Object::New(env);
    SET_FIELDS(row, address, host, port);
    return row;
  });
}

Napi::Value toJs(Napi::Env env, const EngineEvent& event) {
  Napi::Object object = Napi::Object::New(env);
  switch (event.kind) {
    case EngineEvent::Kind::kLocations: {
      object.Set("kind", "locations");
      object.Set("manifest", hexOf(event.manifest));
      SET_FIELDS(object, event, dataset, source);
      object.Set("entries", arrayOf(env, event.entries, std::identity()));
      object.Set("ahead", arrayOf(env, event.ahead, std::identity()));
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
      SET_FIELDS(object, event, target, message);
      break;
  }
  return object;
}

}  // namespace hearth::convert
