// RDMA between JavaScript and the engine's types (native/binding/src/rdma.ts).
#include <array>
#include <utility>

#include "binding/convert.h"

namespace hearth::convert {
namespace {

constexpr std::array kUses{std::pair{"off", RdmaUse::kOff}, std::pair{"auto", RdmaUse::kAuto},
                           std::pair{"required", RdmaUse::kRequired}};

const char* nameOf(RdmaUse use) {
  for (const auto& [name, value] : kUses) {
    if (value == use) return name;
  }
  return "";
}

RdmaUse useOf(const Napi::Object& from) {
  const std::string wanted = text(from, "use");
  for (const auto& [name, value] : kUses) {
    if (wanted == name) return value;
  }
  throw Napi::TypeError::New(from.Env(), "rdma.use must be off, auto or required");
}

Napi::Object toJs(Napi::Env env, const RdmaStatistics::Port& port) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", port.name);
  object.Set("active", port.active);
  object.Set("used", port.used);
  object.Set("hasWindows", port.hasWindows);
  object.Set("link", port.link);
  object.Set("gid", port.gid);
  object.Set("mtuBytes", port.mtuBytes);
  object.Set("bitsPerSecond", Napi::BigInt::New(env, port.bitsPerSecond));
  object.Set("numaNode", port.numaNode);
  object.Set("pciPath", port.pciPath);
  return object;
}

Napi::Object toJs(Napi::Env env, const RailStatistics& rail) {
  Napi::Object object = Napi::Object::New(env);
  const auto set = [&](const char* name, std::uint64_t value) {
    object.Set(name, Napi::BigInt::New(env, value));
  };
  object.Set("port", rail.port);
  object.Set("usable", rail.usable);
  object.Set("reason", rail.error);
  set("requests", rail.requests);
  set("bytesReceived", rail.bytesReceived);
  set("answers", rail.answers);
  set("bytesSent", rail.bytesSent);
  set("retries", rail.retries);
  set("pauses", rail.pauses);
  set("failures", rail.failures);
  set("idleCloses", rail.idleCloses);
  object.Set("bytesPerSecond", rail.bytesPerSecond);
  Napi::Array counts = Napi::Array::New(env, LatencyHistogram::kBuckets);
  for (std::uint32_t at = 0; at < LatencyHistogram::kBuckets; ++at)
    counts.Set(at, static_cast<double>(rail.latency.counts[at]));
  Napi::Object latency = Napi::Object::New(env);
  latency.Set("counts", counts);
  latency.Set("seconds", rail.latency.seconds);
  object.Set("latency", latency);
  return object;
}

}  // namespace

RdmaOptions rdmaOptions(const Napi::Value& from) {
  RdmaOptions options;
  if (from.IsUndefined()) return options;
  if (!from.IsObject()) throw Napi::TypeError::New(from.Env(), "rdma must be an object");
  const auto object = from.As<Napi::Object>();
  options.use = useOf(object);
  options.devices = texts(object.Get("devices"), "rdma.devices");
  options.library = text(object, "library");
  return options;
}

Napi::Value toJs(Napi::Env env, const RdmaStatistics& rdma) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("use", nameOf(rdma.use));
  object.Set("reason", rdma.reason);
  Napi::Array ports = Napi::Array::New(env);
  for (const RdmaStatistics::Port& port : rdma.ports) ports.Set(ports.Length(), toJs(env, port));
  object.Set("ports", ports);
  Napi::Array refused = Napi::Array::New(env);
  for (const RdmaStatistics::Refusal& refusal : rdma.refused) {
    Napi::Object row = Napi::Object::New(env);
    row.Set("port", refusal.port);
    row.Set("reason", refusal.reason);
    refused.Set(refused.Length(), row);
  }
  object.Set("refused", refused);
  return object;
}

Napi::Value rdmaToJs(Napi::Env env, const PeerStatistics& peer) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("port", peer.rdma);
  object.Set("reason", peer.rdmaError);
  object.Set("requests", Napi::BigInt::New(env, peer.rdmaRequests));
  object.Set("bytesReceived", Napi::BigInt::New(env, peer.rdmaBytesReceived));
  object.Set("bytesSent", Napi::BigInt::New(env, peer.rdmaBytesSent));
  object.Set("failures", Napi::BigInt::New(env, peer.rdmaFailures));
  Napi::Array rails = Napi::Array::New(env);
  for (const RailStatistics& rail : peer.rdmaRails) rails.Set(rails.Length(), toJs(env, rail));
  object.Set("rails", rails);
  return object;
}

}  // namespace hearth::convert
