#include "binding/convert.h"

namespace hearth::convert {
namespace {

[[noreturn]] void wrong(const Napi::Env& env, const std::string& message) {
  throw Napi::TypeError::New(env, message);
}

Napi::Value field(const Napi::Object& from, const char* name) { return from.Get(name); }

bool present(const Napi::Value& value) { return !value.IsUndefined() && !value.IsNull(); }

std::string textOr(const Napi::Object& from, const char* name) {
  return present(field(from, name)) ? text(from, name) : std::string();
}

std::uint64_t numberOr(const Napi::Object& from, const char* name, std::uint64_t otherwise) {
  const Napi::Value value = field(from, name);
  return present(value) ? unsigned64(value, name) : otherwise;
}

bool flagOr(const Napi::Object& from, const char* name) {
  const Napi::Value value = field(from, name);
  return present(value) && value.ToBoolean();
}

template <class T, class F>
std::vector<T> list(const Napi::Value& from, const char* name, F convertOne) {
  if (!from.IsArray()) wrong(from.Env(), std::string(name) + " must be an array");
  const auto array = from.As<Napi::Array>();
  std::vector<T> result;
  result.reserve(array.Length());
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    const Napi::HandleScope scope(from.Env());
    result.push_back(convertOne(array.Get(i)));
  }
  return result;
}

Napi::Object object(const Napi::Value& from, const char* name) {
  if (!from.IsObject()) wrong(from.Env(), std::string(name) + " must be an object");
  return from.As<Napi::Object>();
}

PeerAddress address(const Napi::Value& from) {
  const Napi::Object value = object(from, "address");
  return {text(value, "host"),
          static_cast<std::uint16_t>(unsigned64(field(value, "port"), "port"))};
}

CacheDirectoryOptions cacheDirectory(const Napi::Value& from) {
  const Napi::Object value = object(from, "cache directory");
  return {text(value, "path"), unsigned64(field(value, "budgetBytes"), "budgetBytes"),
          unsigned64(field(value, "freeFloorBytes"), "freeFloorBytes")};
}

std::string stringOf(const Napi::Value& from) { return from.ToString().Utf8Value(); }

}  // namespace

std::vector<std::string> texts(const Napi::Value& from, const char* name) {
  return list<std::string>(from, name, stringOf);
}

std::string text(const Napi::Object& from, const char* name) {
  const Napi::Value value = field(from, name);
  if (!value.IsString()) wrong(from.Env(), std::string(name) + " must be a string");
  return value.As<Napi::String>().Utf8Value();
}

std::uint64_t unsigned64(const Napi::Value& from, const char* name) {
  if (from.IsNumber()) {
    const double value = from.As<Napi::Number>().DoubleValue();
    if (value >= 0 && value <= 9007199254740992.0) return static_cast<std::uint64_t>(value);
  } else if (from.IsBigInt()) {
    bool lossless = false;
    const std::uint64_t value = from.As<Napi::BigInt>().Uint64Value(&lossless);
    if (lossless) return value;
  }
  wrong(from.Env(), std::string(name) + " must be a whole number from 0 to 2^64 - 1");
}

Sha256Digest digest(const Napi::Value& from) {
  const auto key = from.IsString() ? ContentKey::parse(stringOf(from)) : std::nullopt;
  if (!key) wrong(from.Env(), "a digest must be 64 hexadecimal digits");
  return key->bytes;
}

std::uint32_t sourceIndex(const Napi::Object& of) {
  return static_cast<std::uint32_t>(numberOr(of, "source", 0));
}

std::uint32_t entry(const Napi::Value& from) {
  const std::uint64_t value = unsigned64(from, "entry");
  if (value > 0xffffffffu) wrong(from.Env(), "entry must be below 2^32");
  return static_cast<std::uint32_t>(value);
}

EntryList entryList(const Napi::Value& from) {
  if (!present(from)) return std::nullopt;
  return list<std::uint32_t>(from, "entries",
                             [](const Napi::Value& value) { return entry(value); });
}

ArenaPageKind arenaPages(const Napi::Object& from) {
  const std::string name = textOr(from, "arenaPages");
  if (name.empty()) return EngineOptions().arenaPages;
  for (const auto kind : {ArenaPageKind::kSmall, ArenaPageKind::kTransparent,
                          ArenaPageKind::kHuge2M, ArenaPageKind::kHuge1G}) {
    if (name == arenaPageKindName(kind)) return kind;
  }
  wrong(from.Env(), "arenaPages must be small, transparent, huge-2Mi or huge-1Gi");
}

BandwidthLimits bandwidthLimits(const Napi::Object& from, const char* name) {
  const Napi::Value value = field(from, name);
  if (!present(value)) return {};
  const Napi::Object rates = object(value, name);
  return {numberOr(rates, "total", 0), numberOr(rates, "warm", 0)};
}

NodeLimitOptions nodeLimits(const Napi::Object& from) {
  const Napi::Value value = field(from, "limits");
  if (!present(value)) return {};
  const Napi::Object limits = object(value, "limits");
  return {bandwidthLimits(limits, "origin"), bandwidthLimits(limits, "peers"),
          bandwidthLimits(limits, "disk")};
}

EngineOptions engineOptions(const Napi::Object& from) {
  EngineOptions options;
  options.node = text(from, "node");
  options.incarnation = text(from, "incarnation");
  options.cluster = text(from, "cluster");
  const Napi::Value secret = field(from, "secret");
  if (!secret.IsTypedArray()) wrong(from.Env(), "secret must be a Uint8Array");
  const auto bytes = secret.As<Napi::Uint8Array>();
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.Data());
  options.secret.assign(begin, begin + bytes.ByteLength());
  options.listen = list<PeerAddress>(field(from, "listen"), "listen", address);
  options.cacheDirectories = list<CacheDirectoryOptions>(field(from, "cacheDirectories"),
                                                         "cacheDirectories", cacheDirectory);
  options.shards = numberOr(from, "shards", 0);
  options.originConnections = numberOr(from, "originConnections", options.originConnections);
  options.bufferBytes = numberOr(from, "bufferBytes", 0);
  options.memoryBytes = numberOr(from, "memoryBytes", 0);
  options.arenaPages = arenaPages(from);
  options.holder = textOr(from, "holder");
  options.clientSocket = textOr(from, "clientSocket");
  options.volumeTails = textOr(from, "volumeTails");
  options.scrub.bytesPerSecond =
      numberOr(from, "scrubBytesPerSecond", options.scrub.bytesPerSecond);
  options.limits = nodeLimits(from);
  options.rdma = rdmaOptions(field(from, "rdma"));
  options.certificateAuthorities = textOr(from, "certificateAuthorities");
  options.forbidPrivateAddresses = flagOr(from, "forbidPrivateAddresses");
  const Napi::Value networks = field(from, "allowedNetworks");
  if (present(networks))
    options.allowedNetworks = list<std::string>(networks, "allowedNetworks", stringOf);
  options.proxies = proxyOptions(object(field(from, "proxies"), "proxies"));
  return options;
}

ProxyOptions proxyOptions(const Napi::Object& from) {
  return {.http = text(from, "http"), .https = text(from, "https"), .none = text(from, "none")};
}

std::vector<ClusterMember> members(const Napi::Array& from) {
  return list<ClusterMember>(from, "peers", [](const Napi::Value& value) {
    const Napi::Object peer = object(value, "peer");
    ClusterMember member;
    member.identity.node = text(peer, "node");
    member.identity.incarnation = text(peer, "incarnation");
    member.identity.addresses = list<PeerAddress>(field(peer, "addresses"), "addresses", address);
    member.zone = textOr(peer, "zone");
    member.rack = textOr(peer, "rack");
    member.ready = flagOr(peer, "ready");
    return member;
  });
}

ManifestRow manifestRow(const Napi::Object& from) {
  ManifestRow row;
  row.path = text(from, "path");
  const std::string kind = text(from, "kind");
  if (kind == "file") {
    row.kind = EntryKind::kFile;
    const auto key = ContentKey::parse(text(from, "contentKey"));
    if (!key) wrong(from.Env(), "contentKey must be 64 hexadecimal digits");
    row.key = *key;
  } else if (kind == "directory") {
    row.kind = EntryKind::kDirectory;
  } else if (kind == "symlink") {
    row.kind = EntryKind::kSymlink;
  } else {
    wrong(from.Env(), "kind must be file, directory or symlink");
  }
  row.size = numberOr(from, "size", 0);
  row.objectOffset = numberOr(from, "objectOffset", 0);
  const std::string source = textOr(from, "sourceDigest");
  if (!source.empty()) row.sourceDigest = digest(field(from, "sourceDigest"));
  row.validator = textOr(from, "validator");
  row.executable = flagOr(from, "executable");
  row.symlinkTarget = textOr(from, "symlinkTarget");
  row.modifiedNs = static_cast<std::int64_t>(numberOr(from, "modifiedAtNs", 0));
  return row;
}

Location location(const Napi::Object& from) {
  Location result;
  result.url = textOr(from, "url");
  result.path = textOr(from, "path");
  result.node = textOr(from, "node");
  const int places = !result.url.empty() + !result.path.empty() + !result.node.empty();
  if (places != 1) wrong(from.Env(), "a location has exactly one of url, path and node");
  result.below = textOr(from, "below");
  if (result.path.empty() != result.below.empty())
    wrong(from.Env(), "a location has a directory to lie below if it has a path, and only then");
  result.expiresAtMs = static_cast<std::int64_t>(numberOr(from, "expiresAt", 0));
  const Napi::Value headers = field(from, "headers");
  if (present(headers)) {
    const Napi::Object map = object(headers, "headers");
    const Napi::Array names = map.GetPropertyNames();
    for (std::uint32_t i = 0; i < names.Length(); ++i) {
      const Napi::Value name = names.Get(i);
      result.headers.emplace_back(stringOf(name), stringOf(map.Get(name)));
    }
  }
  return result;
}

Error error(const Napi::Object& from) {
  const std::string name = text(from, "code");
  for (std::uint16_t code = 1; isErrorCode(code); ++code) {
    if (errorName(static_cast<ErrorCode>(code)) == name) {
      return {static_cast<ErrorCode>(code), text(from, "message")};
    }
  }
  wrong(from.Env(), "code must be a name of the error table");
}

Verification verification(const std::string& name) {
  if (name == "none") return Verification::kNone;
  if (name == "digest") return Verification::kDigest;
  return Verification::kChecksum;
}

MountOptions::Path mountPath(const std::string& name) {
  if (name == "view") return MountOptions::Path::kView;
  if (name == "fuse") return MountOptions::Path::kFuse;
  if (name == "daemon") return MountOptions::Path::kDaemon;
  return MountOptions::Path::kAuto;
}

}  // namespace hearth::convert
