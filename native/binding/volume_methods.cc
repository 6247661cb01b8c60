// Methods of the class `Engine` about writable volumes.
#include "binding/engine_wrap.h"
#include "binding/fields.h"

namespace hearth {
namespace {

Task<Status> setAll(Engine& engine, std::vector<VolumeOptions> volumes) {
  co_await engine.setVolumes(std::move(volumes));
  co_return Status();
}

Clock::duration timeoutOf(const Napi::Value& from) {
  return std::chrono::milliseconds(convert::unsigned64(from, "timeoutMs"));
}

}  // namespace

Napi::Value EngineWrap::setVolumes(const Napi::CallbackInfo& info) {
  return promise(info.Env(), setAll(engine(info.Env()), convert::volumes(info[0])));
}

Napi::Value EngineWrap::mountVolume(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  VolumeMountOptions options{.target = convert::text(from, "target"),
                             .volume = convert::wideId(from.Get("id"), "id"),
                             .source = convert::text(from, "source")};
  return promise(info.Env(), engine(info.Env()).mounts().mountVolume(std::move(options)),
                 [](Napi::Env env, const Result<MountInfo>&) { return env.Undefined(); });
}

void EngineWrap::setVolumeLeader(const Napi::CallbackInfo& info) {
  engine(info.Env())
      .volumes()
      .setLeader(convert::wideId(info[0], "id"), convert::volumeLeader(info[1]));
}

Napi::Value EngineWrap::leadVolume(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).volumes().lead(convert::volumeLease(info[0])));
}

void EngineWrap::extendVolumeLease(const Napi::CallbackInfo& info) {
  engine(info.Env()).volumes().extendLease(convert::volumeLease(info[0]));
}

Napi::Value EngineWrap::resignVolume(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).volumes().resign(convert::wideId(info[0], "id")));
}

void EngineWrap::setVolumeFollowers(const Napi::CallbackInfo& info) {
  engine(info.Env()).volumes().setFollowers(convert::volumeFollowers(info[0]));
}

Napi::Value EngineWrap::volumeFollowersWanted(const Napi::CallbackInfo& info) {
  return promise(
      info.Env(),
      engine(info.Env())
          .volumes()
          .followersWanted(convert::wideId(info[0], "id"), convert::unsigned64(info[1], "epoch"),
                           convert::texts(info[2], "known"), timeoutOf(info[3])),
      [](Napi::Env env, const Result<std::vector<std::string>>& wanted) {
        return convert::arrayOf(
            env, *wanted, [&](const std::string& node) { return Napi::String::New(env, node); });
      });
}

Napi::Value EngineWrap::volumeLogPositions(const Napi::CallbackInfo& info) {
  return promise(
      info.Env(),
      engine(info.Env())
          .volumes()
          .logPositions(convert::wideId(info[0], "id"), convert::unsigned64(info[1], "epoch"),
                        convert::texts(info[2], "nodes"), timeoutOf(info[3])),
      [](Napi::Env env, const Result<std::vector<NodeLogPosition>>& positions) {
        return convert::arrayOf(env, *positions, [&](const NodeLogPosition& position) {
          return convert::toJs(env, position);
        });
      });
}

Napi::Value EngineWrap::removeVolume(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).volumes().remove(convert::wideId(info[0], "id")));
}

Napi::Value EngineWrap::volumeStatistics(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).volumes().statistics(),
                 [](Napi::Env env, const std::vector<VolumeStatistics>& volumes) {
                   Napi::Array array = Napi::Array::New(env);
                   for (const VolumeStatistics& volume : volumes)
                     array.Set(array.Length(), convert::toJs(env, volume));
                   return array;
                 });
}

}  // namespace hearth
