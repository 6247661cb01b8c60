// Methods of the class `Engine` about mounts.
#include "binding/engine_wrap.h"
#include "holder/holder_client.h"

namespace hearth {
namespace {

// On a connection of its own, so that it is answered while another call waits.
Task<Result<HolderHello>> askHolder(Engine& engine, std::string socket) {
  constexpr auto kDeadline = std::chrono::seconds(3);
  auto ask = [socket = std::move(socket), kDeadline] {
    const auto client = HolderClient::connect(socket, kDeadline);
    return std::make_shared<Result<HolderHello>>(client ? Result<HolderHello>((*client)->holder())
                                                        : Result<HolderHello>(client.error()));
  };
  const std::shared_ptr<Result<HolderHello>> hello = co_await engine.home().offload(ask);
  co_return std::move(*hello);
}

Task<std::vector<MountInfo>> listMounts(Engine& engine) { co_return engine.mounts().list(); }

}  // namespace

Napi::Value EngineWrap::mount(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  MountOptions options;
  options.target = convert::text(from, "target");
  options.dataset = revision(from);
  options.source = convert::text(from, "source");
  options.path = convert::mountPath(convert::text(from, "dataPath"));
  return promise(
      info.Env(), engine(info.Env()).mounts().mount(std::move(options)),
      [](Napi::Env env, const Result<MountInfo>& mount) { return convert::toJs(env, *mount); });
}

Napi::Value EngineWrap::unmount(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).mounts().unmount(info[0].ToString().Utf8Value()));
}

Napi::Value EngineWrap::mounts(const Napi::CallbackInfo& info) {
  return promise(info.Env(), listMounts(engine(info.Env())),
                 [](Napi::Env env, const std::vector<MountInfo>& mounts) {
                   Napi::Array array = Napi::Array::New(env);
                   for (const MountInfo& mount : mounts)
                     array.Set(array.Length(), convert::toJs(env, mount));
                   return array;
                 });
}

Napi::Value EngineWrap::resumeMounts(const Napi::CallbackInfo& info) {
  using Targets = Result<std::vector<std::string>>;
  return promise(info.Env(), engine(info.Env()).mounts().resume(),
                 [](Napi::Env env, const Targets& targets) {
                   Napi::Array array = Napi::Array::New(env);
                   for (const std::string& target : *targets) array.Set(array.Length(), target);
                   return array;
                 });
}

Napi::Value EngineWrap::holder(const Napi::CallbackInfo& info) {
  return promise(info.Env(), askHolder(engine(info.Env()), info[0].ToString().Utf8Value()),
                 [](Napi::Env env, const Result<HolderHello>& hello) {
                   Napi::Object object = Napi::Object::New(env);
                   object.Set("release", hello->release);
                   object.Set("expected", HEARTH_HOLDER_RELEASE);
                   object.Set("missing", missingFeatures(kHolderFeatures, hello->features));
                   return object;
                 });
}

}  // namespace hearth
