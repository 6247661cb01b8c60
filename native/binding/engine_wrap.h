// The JavaScript class `Engine` of the addon: every method starts a task on the engine's home shard
// and gives a promise.
#pragma once

#include <napi.h>

#include <memory>
#include <optional>
#include <thread>
#include <type_traits>

#include "binding/bridge.h"
#include "binding/convert.h"
#include "engine/engine.h"
#include "manifest/path_filter.h"
#include "origin/proxy_choice.h"

namespace hearth {

// The addon's state for one JavaScript environment (main thread or worker).
struct AddonData {
  explicit AddonData(Napi::Env env) : bridge(std::make_shared<Bridge>(env)) {}
  std::shared_ptr<Bridge> bridge;
  Napi::FunctionReference engineClass;
  // Engines that are open, to be closed with the environment.
  std::vector<std::shared_ptr<Engine>> open;
  // Threads that open or close an engine, joined with the environment: few in a process's life.
  std::vector<std::thread> threads;
};

class ManifestBuilderWrap final : public Napi::ObjectWrap<ManifestBuilderWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit ManifestBuilderWrap(const Napi::CallbackInfo& info);
  // The builder, which can be taken once.
  [[nodiscard]] std::unique_ptr<ManifestBuilder> take() { return std::move(builder_); }

 private:
  void add(const Napi::CallbackInfo& info);
  Napi::Value unusable(const Napi::CallbackInfo& info);
  std::unique_ptr<ManifestBuilder> builder_;
};

// The JavaScript class `PathFilter`: patterns that are matched at once, on the JavaScript thread.
class PathFilterWrap final : public Napi::ObjectWrap<PathFilterWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PathFilterWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value matches(const Napi::CallbackInfo& info);
  std::optional<PathFilter> filter_;
};

// The JavaScript class `ProxyChoice`: asked at once, on the JavaScript thread.
class ProxyChoiceWrap final : public Napi::ObjectWrap<ProxyChoiceWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit ProxyChoiceWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value of(const Napi::CallbackInfo& info);
  ProxyChoice choice_;
};

class EngineWrap final : public Napi::ObjectWrap<EngineWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  // Engine.open(options): Promise<Engine>.
  static Napi::Value open(const Napi::CallbackInfo& info);
  explicit EngineWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value addresses(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  Napi::Value setCluster(const Napi::CallbackInfo& info);
  Napi::Value setRevokedTokens(const Napi::CallbackInfo& info);
  void nameDatasets(const Napi::CallbackInfo& info);
  Napi::Value finishManifest(const Napi::CallbackInfo& info);
  Napi::Value openManifest(const Napi::CallbackInfo& info);
  Napi::Value removeManifest(const Napi::CallbackInfo& info);
  Napi::Value manifests(const Napi::CallbackInfo& info);
  Napi::Value entries(const Napi::CallbackInfo& info);
  Napi::Value entriesAt(const Napi::CallbackInfo& info);
  [[nodiscard]] Napi::Value rows(Napi::Env env, const Manifest& manifest,
                                 const std::vector<std::uint32_t>& indices) const;
  void setMirrors(const Napi::CallbackInfo& info);
  void setOriginWait(const Napi::CallbackInfo& info);
  Napi::Value sources(const Napi::CallbackInfo& info);
  void setOriginBase(const Napi::CallbackInfo& info);
  void setLocations(const Napi::CallbackInfo& info);
  void failLocations(const Napi::CallbackInfo& info);
  void forgetLocations(const Napi::CallbackInfo& info);
  Napi::Value warm(const Napi::CallbackInfo& info);
  Napi::Value warmProgress(const Napi::CallbackInfo& info);
  void setWarmRate(const Napi::CallbackInfo& info);
  Napi::Value cancelWarm(const Napi::CallbackInfo& info);
  Napi::Value residency(const Napi::CallbackInfo& info);
  Napi::Value pin(const Napi::CallbackInfo& info);
  Napi::Value unpin(const Napi::CallbackInfo& info);
  Napi::Value evict(const Napi::CallbackInfo& info);
  Napi::Value letGo(const Napi::CallbackInfo& info);
  void setLastUse(const Napi::CallbackInfo& info);
  Napi::Value verify(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  Napi::Value buildView(const Napi::CallbackInfo& info);
  Napi::Value mount(const Napi::CallbackInfo& info);
  Napi::Value unmount(const Napi::CallbackInfo& info);
  Napi::Value mounts(const Napi::CallbackInfo& info);
  Napi::Value resumeMounts(const Napi::CallbackInfo& info);
  Napi::Value holder(const Napi::CallbackInfo& info);
  Napi::Value setVolumes(const Napi::CallbackInfo& info);
  Napi::Value mountVolume(const Napi::CallbackInfo& info);
  void setVolumeLeader(const Napi::CallbackInfo& info);
  Napi::Value leadVolume(const Napi::CallbackInfo& info);
  void extendVolumeLease(const Napi::CallbackInfo& info);
  Napi::Value resignVolume(const Napi::CallbackInfo& info);
  void setVolumeFollowers(const Napi::CallbackInfo& info);
  Napi::Value volumeFollowersWanted(const Napi::CallbackInfo& info);
  Napi::Value volumeLogPositions(const Napi::CallbackInfo& info);
  Napi::Value removeVolume(const Napi::CallbackInfo& info);
  Napi::Value volumeStatistics(const Napi::CallbackInfo& info);
  Napi::Value lookUpInVolume(const Napi::CallbackInfo& info);
  Napi::Value listVolumeFolder(const Napi::CallbackInfo& info);
  Napi::Value volumeContents(const Napi::CallbackInfo& info);
  Napi::Value statistics(const Napi::CallbackInfo& info);

  // Awaits `task` on the home shard; `toValue(env, value)` makes the promise's value on the
  // JavaScript thread.
  template <class T, class ToValue>
  Napi::Value promise(Napi::Env env, Task<T> task, ToValue toValue);
  Napi::Value promise(Napi::Env env, Task<Status> task);
  // A promise that is kept or broken already.
  static Napi::Value settled(Napi::Env env, const Status& status);

  // The engine, or a JavaScript error when it is closed.
  [[nodiscard]] Engine& engine(Napi::Env env) const;
  // The open dataset of a digest, or a JavaScript error with code NotFound.
  [[nodiscard]] std::shared_ptr<Dataset> dataset(const Napi::Value& digest,
                                                 const std::string& id = {}) const;
  // As dataset(), of an object with `manifest` and `dataset`: for what may need the origin.
  [[nodiscard]] std::shared_ptr<Dataset> revision(const Napi::Value& from) const;
  // Of the source that it names beside the revision; none: the first. Null of a mirror that the
  // dataset has no more, of which nothing needs to be known.
  [[nodiscard]] std::shared_ptr<LocationCache> locations(const Napi::Value& of) const;
  // Also of a removed manifest that is still in use; null: of one that is not.
  [[nodiscard]] std::shared_ptr<LocationCache> usedLocations(const Napi::Value& of) const;

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<Bridge> bridge_;
};

namespace binding_detail {

inline const Error* errorOf(const Status& status) {
  return status.ok() ? nullptr : &status.error();
}
template <class T>
const Error* errorOf(const Result<T>& result) {
  return result.ok() ? nullptr : &result.error();
}
template <class T>
const Error* errorOf(const T&) {
  return nullptr;
}

}  // namespace binding_detail

template <class T, class ToValue>
Napi::Value EngineWrap::promise(Napi::Env env, Task<T> task, ToValue toValue) {
  struct Wrap {
    static Task<void> run(Task<T> inner, std::shared_ptr<Bridge> bridge,
                          Napi::Promise::Deferred deferred, ToValue convertValue) {
      auto value = std::make_shared<T>(co_await inner);
      bridge->post([bridge, value, deferred, convertValue](Napi::Env target) {
        bridge->release();
        const Error* const error = binding_detail::errorOf(*value);
        if (error != nullptr) {
          deferred.Reject(convert::toJs(target, *error));
        } else {
          deferred.Resolve(convertValue(target, *value));
        }
      });
    }
  };
  Shard& home = *engine(env).commons().shards.front();
  const auto deferred = Napi::Promise::Deferred::New(env);
  bridge_->hold();
  auto wrapped = std::make_shared<Task<void>>(
      Wrap::run(std::move(task), bridge_, deferred, std::move(toValue)));
  // Behind the shard's gate, so that an engine that closes waits for it; one that has closed
  // refuses.
  home.reactor->post([&home, wrapped, bridge = bridge_, deferred] {
    if (!home.gate->closed()) return home.gate->spawn(std::move(*wrapped));
    bridge->post([bridge, deferred](Napi::Env target) {
      bridge->release();
      deferred.Reject(convert::toJs(target, Error{ErrorCode::kCancelled, "the engine is closing"}));
    });
  });
  return deferred.Promise();
}

}  // namespace hearth
