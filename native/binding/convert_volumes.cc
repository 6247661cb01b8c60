// Conversions of writable volumes, as native/binding/src/volumes.ts declares them.
#include "base/content_key.h"
#include "binding/convert.h"
#include "binding/fields.h"

namespace hearth::convert {
namespace {

[[noreturn]] void notAnObject(const Napi::Env& env, const char* name) {
  throw Napi::TypeError::New(env, std::string(name) + " must be an object");
}

Napi::Object objectOf(const Napi::Value& from, const char* name) {
  if (!from.IsObject()) notAnObject(from.Env(), name);
  return from.As<Napi::Object>();
}

VolumeOptions volumeOptions(const Napi::Value& from) {
  const Napi::Object value = objectOf(from, "volume");
  VolumeOptions options;
  options.id = wideId(value.Get("id"), "id");
  options.store = wideId(value.Get("store"), "store");
  options.name = text(value, "name");
  options.deadline = std::chrono::milliseconds(unsigned64(value.Get("deadlineMs"), "deadlineMs"));
  options.limits = {unsigned64(value.Get("maxBytes"), "maxBytes"),
                    unsigned64(value.Get("maxInodes"), "maxInodes")};
  return options;
}

Napi::Value toJs(Napi::Env env, const CallCount& count) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("name", std::string(count.name));
  object.Set("count", Napi::BigInt::New(env, count.count));
  object.Set("failed", Napi::BigInt::New(env, count.failed));
  object.Set("seconds", std::chrono::duration<double>(count.time).count());
  return object;
}

Napi::Value toJs(Napi::Env env, const LogFollowers::Row& row) {
  Napi::Object object = Napi::Object::New(env);
  SET_FIELDS(object, row.follower, node, listed, confirmed, lag);
  object.Set("lagSeconds", std::chrono::duration<double>(row.follower.lagTime).count());
  object.Set("error", row.error);
  return object;
}

}  // namespace

tree::WideId wideId(const Napi::Value& from, const char* name) {
  const std::string digits = from.IsString() ? from.As<Napi::String>().Utf8Value() : std::string();
  // Half of a key.
  const auto key = ContentKey::parse(digits + std::string(32, '0'));
  if (digits.size() != 32 || !key) {
    throw Napi::TypeError::New(from.Env(), std::string(name) + " must be 32 hexadecimal digits");
  }
  tree::WideId id{};
  std::copy_n(key->bytes.begin(), id.size(), id.begin());
  return id;
}

std::vector<VolumeOptions> volumes(const Napi::Value& from) {
  if (!from.IsArray()) throw Napi::TypeError::New(from.Env(), "volumes must be an array");
  const auto array = from.As<Napi::Array>();
  std::vector<VolumeOptions> all;
  for (std::uint32_t i = 0; i < array.Length(); ++i) all.push_back(volumeOptions(array.Get(i)));
  return all;
}

std::optional<LeaderClient::Leader> volumeLeader(const Napi::Value& from) {
  if (from.IsUndefined()) return std::nullopt;
  const Napi::Object value = objectOf(from, "leader");
  return LeaderClient::Leader{text(value, "node"), unsigned64(value.Get("epoch"), "epoch")};
}

VolumeLease volumeLease(const Napi::Value& from) {
  const Napi::Object value = objectOf(from, "lease");
  return {wideId(value.Get("id"), "id"), unsigned64(value.Get("epoch"), "epoch"),
          static_cast<std::int64_t>(unsigned64(value.Get("until"), "until")),
          texts(value.Get("followers"), "followers")};
}

VolumeFollowers volumeFollowers(const Napi::Value& from) {
  const Napi::Object value = objectOf(from, "followers");
  VolumeFollowers followers{wideId(value.Get("id"), "id"),
                            unsigned64(value.Get("epoch"), "epoch"),
                            texts(value.Get("candidates"), "candidates"),
                            {}};
  const Napi::Value listed = value.Get("listed");
  if (!listed.IsUndefined()) followers.listed = texts(listed, "listed");
  return followers;
}

Napi::Value toJs(Napi::Env env, const NodeLogPosition& position) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("node", position.node);
  SET_FIELDS(object, position.position, epoch, record);
  return object;
}

Napi::Value toJs(Napi::Env env, const VolumeStatistics& volume) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("id", hexOf(volume.id));
  object.Set("leads", volume.leads);
  object.Set("epoch", Napi::BigInt::New(env, volume.epoch));
  object.Set("error", volume.error);
  object.Set("bytes", Napi::BigInt::New(env, volume.usage.bytes));
  object.Set("inodes", Napi::BigInt::New(env, volume.usage.inodes));
  object.Set("evictedFiles", Napi::BigInt::New(env, volume.evictions.files));
  object.Set("evictedYoungFiles", Napi::BigInt::New(env, volume.evictions.youngFiles));
  object.Set("sessions", static_cast<double>(volume.sessions));
  object.Set("sessionBytes", Napi::BigInt::New(env, volume.sessionBytes));
  object.Set("overdueRequests", Napi::BigInt::New(env, volume.overdue));
  object.Set("unservedRequests", Napi::BigInt::New(env, volume.unserved));
  object.Set("followersDropped", Napi::BigInt::New(env, volume.followersDropped));
  object.Set("followers", arrayOf(env, volume.followers,
                                  [env](const LogFollowers::Row& row) { return toJs(env, row); }));
  Napi::Array operations = Napi::Array::New(env);
  for (const CallCount& count : volume.operations)
    operations.Set(operations.Length(), toJs(env, count));
  object.Set("operations", operations);
  return object;
}

}  // namespace hearth::convert
