// RDMA between JavaScript and the engine's types (native/binding/src/rdma.ts).
#include <array>
#include <utility>

#include "binding/convert.h"
#include "binding/fields.h"

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
  SET_FIELDS(object, port, name, active, used, hasWindows, link, gid, mtuBytes, bitsPerSecond,
             numaNode, pciPath);
  return object;
}

Napi::Object toJs(Napi::Env env, const RailStatistics& rail) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, rail, port, usable, requests, bytesReceived, answers, bytesSent, bytesInPlace,
             bytesCopied, retries, pauses, failures, idleCloses, bytesPerSecond);
  object.Set("reason", rail.error);
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
  object.Set("ports",
             arrayOf(env, rdma.ports, [env](const auto& port) { return toJs(env, port); }));
  object.Set("refused", arrayOf(env, rdma.refused, [env](const RdmaStatistics::Refusal& refusal) {
               Napi::Object row = Napi::Object::New(env);
               SET_FIELDS(row, refusal, port, reason);
               return row;
             }));
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
  object.Set("rails",
             arrayOf(env, peer.rdmaRails, [env](const auto& rail) { return toJs(env, rail); }));
  return object;
}

}  // namespace hearth::convert
