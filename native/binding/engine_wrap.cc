// Life of the engine, cluster view, jobs and statistics.
#include "binding/engine_wrap.h"

#include <thread>

#include "warm/cluster_share.h"

namespace hearth {
namespace {

// Of WILLNEED: with `agents`, what none of the cluster holds, of which each brings its part.
void advise(const Napi::Object& advice, Engine& engine, WarmOptions& options) {
  options.advised = true;
  if (!advice.Has("agents")) return;
  std::vector<std::string> agents;
  const auto names = advice.Get("agents").As<Napi::Array>();
  for (std::uint32_t i = 0; i < names.Length(); ++i)
    agents.push_back(names.Get(i).ToString().Utf8Value());
  options.scope = WarmScope::kCluster;
  options.entries = shareOf(engine.commons().self, agents, *options.dataset->manifest,
                            std::move(options.entries));
}

}  // namespace

Napi::Function EngineWrap::define(Napi::Env env) {
  return DefineClass(
      env, "Engine",
      {
          InstanceMethod<&EngineWrap::addresses>("addresses"),
          InstanceMethod<&EngineWrap::close>("close"),
          InstanceMethod<&EngineWrap::setCluster>("setCluster"),
          InstanceMethod<&EngineWrap::nameDatasets>("nameDatasets"),
          InstanceMethod<&EngineWrap::setRevokedTokens>("setRevokedTokens"),
          InstanceMethod<&EngineWrap::finishManifest>("finishManifest"),
          InstanceMethod<&EngineWrap::openManifest>("openManifest"),
          InstanceMethod<&EngineWrap::removeManifest>("removeManifest"),
          InstanceMethod<&EngineWrap::manifests>("manifests"),
          InstanceMethod<&EngineWrap::entries>("entries"),
          InstanceMethod<&EngineWrap::entriesAt>("entriesAt"),
          InstanceMethod<&EngineWrap::setMirrors>("setMirrors"),
          InstanceMethod<&EngineWrap::setOriginWait>("setOriginWait"),
          InstanceMethod<&EngineWrap::sources>("sources"),
          InstanceMethod<&EngineWrap::setOriginBase>("setOriginBase"),
          InstanceMethod<&EngineWrap::setLocations>("setLocations"),
          InstanceMethod<&EngineWrap::failLocations>("failLocations"),
          InstanceMethod<&EngineWrap::forgetLocations>("forgetLocations"),
          InstanceMethod<&EngineWrap::warm>("warm"),
          InstanceMethod<&EngineWrap::warmProgress>("warmProgress"),
          InstanceMethod<&EngineWrap::setWarmRate>("setWarmRate"),
          InstanceMethod<&EngineWrap::cancelWarm>("cancelWarm"),
          InstanceMethod<&EngineWrap::residency>("residency"),
          InstanceMethod<&EngineWrap::pin>("pin"),
          InstanceMethod<&EngineWrap::unpin>("unpin"),
          InstanceMethod<&EngineWrap::evict>("evict"),
          InstanceMethod<&EngineWrap::letGo>("letGo"),
          InstanceMethod<&EngineWrap::setLastUse>("setLastUse"),
          InstanceMethod<&EngineWrap::verify>("verify"),
          InstanceMethod<&EngineWrap::read>("read"),
          InstanceMethod<&EngineWrap::buildView>("buildView"),
          InstanceMethod<&EngineWrap::mount>("mount"),
          InstanceMethod<&EngineWrap::unmount>("unmount"),
          InstanceMethod<&EngineWrap::mounts>("mounts"),
          InstanceMethod<&EngineWrap::resumeMounts>("resumeMounts"),
          InstanceMethod<&EngineWrap::holder>("holder"),
          InstanceMethod<&EngineWrap::setVolumes>("setVolumes"),
          InstanceMethod<&EngineWrap::mountVolume>("mountVolume"),
          InstanceMethod<&EngineWrap::setVolumeLeader>("setVolumeLeader"),
          InstanceMethod<&EngineWrap::leadVolume>("leadVolume"),
          InstanceMethod<&EngineWrap::extendVolumeLease>("extendVolumeLease"),
          InstanceMethod<&EngineWrap::resignVolume>("resignVolume"),
          InstanceMethod<&EngineWrap::setVolumeFollowers>("setVolumeFollowers"),
          InstanceMethod<&EngineWrap::volumeFollowersWanted>("volumeFollowersWanted"),
          InstanceMethod<&EngineWrap::volumeLogPositions>("volumeLogPositions"),
          InstanceMethod<&EngineWrap::removeVolume>("removeVolume"),
          InstanceMethod<&EngineWrap::volumeStatistics>("volumeStatistics"),
          InstanceMethod<&EngineWrap::lookUpInVolume>("lookUpInVolume"),
          InstanceMethod<&EngineWrap::listVolumeFolder>("listVolumeFolder"),
          InstanceMethod<&EngineWrap::volumeContents>("volumeContents"),
          InstanceMethod<&EngineWrap::statistics>("statistics"),
      });
}

EngineWrap::EngineWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EngineWrap>(info) {
  // Only open() constructs: it hands the engine over as an external.
  if (info.Length() != 1 || !info[0].IsExternal()) {
    throw Napi::TypeError::New(info.Env(), "use Engine.open(options)");
  }
  engine_ = *info[0].As<Napi::External<std::shared_ptr<Engine>>>().Data();
  bridge_ = info.Env().GetInstanceData<AddonData>()->bridge;
}

Napi::Value EngineWrap::open(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (info.Length() != 1 || !info[0].IsObject())
    throw Napi::TypeError::New(env, "open() takes the engine's options");
  const auto from = info[0].As<Napi::Object>();
  EngineOptions options = convert::engineOptions(from);
  const Napi::Value listener = from.Get("onEvent");
  if (!listener.IsFunction()) throw Napi::TypeError::New(env, "onEvent must be a function");
  const auto callback =
      std::make_shared<Napi::FunctionReference>(Napi::Persistent(listener.As<Napi::Function>()));
  callback->SuppressDestruct();
  const std::shared_ptr<Bridge> bridge = env.GetInstanceData<AddonData>()->bridge;
  bridge->hold();
  EventSink events = [bridge, callback](EngineEvent event) {
    bridge->post([callback, event = std::move(event)](Napi::Env target) {
      callback->Call({convert::toJs(target, event)});
    });
  };
  const auto deferred = Napi::Promise::Deferred::New(env);
  // Opening replays logs and may take a while: on a thread of its own, which ends with it.
  env.GetInstanceData<AddonData>()->threads.emplace_back(
      [options = std::move(options), events = std::move(events), bridge, deferred]() mutable {
        auto opened = std::make_shared<Result<std::unique_ptr<Engine>>>(
            Engine::open(std::move(options), std::move(events)));
        bridge->post([bridge, opened, deferred](Napi::Env target) {
          if (!opened->ok()) {
            bridge->release();
            deferred.Reject(convert::toJs(target, opened->error()));
            return;
          }
          std::shared_ptr<Engine> engine = std::move(**opened);
          auto* const addon = target.GetInstanceData<AddonData>();
          addon->open.push_back(engine);
          deferred.Resolve(addon->engineClass.New(
              {Napi::External<std::shared_ptr<Engine>>::New(target, &engine)}));
        });
      });
  return deferred.Promise();
}

Napi::Value EngineWrap::close(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto deferred = Napi::Promise::Deferred::New(env);
  const std::shared_ptr<Engine> closing = std::move(engine_);
  if (closing == nullptr) {
    deferred.Resolve(env.Undefined());
    return deferred.Promise();
  }
  const std::shared_ptr<Bridge> bridge = bridge_;
  env.GetInstanceData<AddonData>()->threads.emplace_back([closing, bridge, deferred] {
    closing->close();
    bridge->post([closing, bridge, deferred](Napi::Env target) {
      std::erase(target.GetInstanceData<AddonData>()->open, closing);
      bridge->release();
      deferred.Resolve(target.Undefined());
    });
  });
  return deferred.Promise();
}

Engine& EngineWrap::engine(Napi::Env env) const {
  if (engine_ != nullptr) return *engine_;
  Napi::Error error = Napi::Error::New(env, "the engine is closed");
  error.Set("code", std::string(errorName(ErrorCode::kCancelled)));
  throw error;
}

std::shared_ptr<Dataset> EngineWrap::revision(const Napi::Value& from) const {
  const auto names = from.As<Napi::Object>();
  return dataset(names.Get("manifest"), convert::text(names, "dataset"));
}

std::shared_ptr<Dataset> EngineWrap::dataset(const Napi::Value& digest,
                                             const std::string& id) const {
  std::shared_ptr<Dataset> found =
      engine(digest.Env()).manifests().find(convert::digest(digest), id);
  if (found != nullptr) return found;
  Napi::Error error = Napi::Error::New(digest.Env(), "the manifest is not open on this agent");
  error.Set("code", std::string(errorName(ErrorCode::kNotFound)));
  throw error;
}

Napi::Value EngineWrap::promise(Napi::Env env, Task<Status> task) {
  return promise(env, std::move(task),
                 [](Napi::Env target, const Status&) { return target.Undefined(); });
}

Napi::Value EngineWrap::settled(Napi::Env env, const Status& status) {
  const auto deferred = Napi::Promise::Deferred::New(env);
  if (status.ok()) {
    deferred.Resolve(env.Undefined());
  } else {
    deferred.Reject(convert::toJs(env, status.error()));
  }
  return deferred.Promise();
}

Napi::Value EngineWrap::addresses(const Napi::CallbackInfo& info) {
  return convert::toJs(info.Env(), engine(info.Env()).addresses());
}

Napi::Value EngineWrap::setCluster(const Napi::CallbackInfo& info) {
  struct Wrap {
    static Task<Status> run(Engine& engine, std::vector<ClusterMember> members) {
      co_await engine.setCluster(std::move(members));
      co_return Status();
    }
  };
  return promise(info.Env(),
                 Wrap::run(engine(info.Env()), convert::members(info[0].As<Napi::Array>())));
}

Napi::Value EngineWrap::setRevokedTokens(const Napi::CallbackInfo& info) {
  struct Wrap {
    static Task<Status> run(Engine& engine, RevokedTokens tokens) {
      co_await engine.setRevokedTokens(std::move(tokens));
      co_return Status();
    }
  };
  const auto from = info[0].As<Napi::Object>();
  const auto names = [&](const char* field) {
    const std::vector<std::string> list = convert::texts(from.Get(field), field);
    return std::set<std::string>(list.begin(), list.end());
  };
  return promise(info.Env(), Wrap::run(engine(info.Env()),
                                       {names("tokens"), names("pods"), names("namespaces")}));
}

void EngineWrap::nameDatasets(const Napi::CallbackInfo& info) {
  std::map<std::string, std::shared_ptr<Dataset>> named;
  const auto revisions = info[0].As<Napi::Array>();
  for (std::uint32_t i = 0; i < revisions.Length(); ++i) {
    const Napi::Value each = revisions[i];
    named[convert::text(each.As<Napi::Object>(), "dataset")] = revision(each);
  }
  const std::vector<std::string> awaited = convert::texts(info[1], "awaited");
  engine(info.Env()).nameDatasets(std::move(named), {awaited.begin(), awaited.end()});
}

Napi::Value EngineWrap::warm(const Napi::CallbackInfo& info) {
  const auto from = info[0].As<Napi::Object>();
  WarmOptions options;
  options.job = convert::text(from, "job");
  options.dataset = revision(from);
  const EntryList entries = convert::entryList(from.Get("entries"));
  options.entries = entries ? *entries : filesOf(*options.dataset->manifest);
  options.priority =
      static_cast<std::uint32_t>(convert::unsigned64(from.Get("priority"), "priority"));
  options.rateLimit = convert::unsigned64(from.Get("rateLimit"), "rateLimit");
  options.peerRateLimit = convert::unsigned64(from.Get("peerRateLimit"), "peerRateLimit");
  options.verify = convert::verification(convert::text(from, "verify"));
  if (from.Get("memory").ToBoolean().Value()) options.memory = MemoryRank::kMemory;
  options.hasDeadline = from.Get("hasDeadline").ToBoolean();
  if (from.Has("advice"))
    advise(from.Get("advice").As<Napi::Object>(), engine(info.Env()), options);
  return settled(info.Env(), engine(info.Env()).warm(std::move(options)));
}

Napi::Value EngineWrap::warmProgress(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::string name = info[0].ToString().Utf8Value();
  const std::shared_ptr<WarmJob> job = engine(env).findJob(name);
  if (job == nullptr) {
    return settled(env,
                   Error{ErrorCode::kNotFound, "no warm job named " + name + " is known here"});
  }
  const auto deferred = Napi::Promise::Deferred::New(env);
  deferred.Resolve(convert::toJs(env, job->progress()));
  return deferred.Promise();
}

void EngineWrap::setWarmRate(const Napi::CallbackInfo& info) {
  const std::shared_ptr<WarmJob> job = engine(info.Env()).findJob(info[0].ToString().Utf8Value());
  if (job != nullptr) job->setRate(convert::unsigned64(info[1], "rateLimit"));
}

Napi::Value EngineWrap::cancelWarm(const Napi::CallbackInfo& info) {
  return settled(info.Env(), engine(info.Env()).cancelWarm(info[0].ToString().Utf8Value()));
}

Napi::Value EngineWrap::statistics(const Napi::CallbackInfo& info) {
  return promise(
      info.Env(), engine(info.Env()).statistics(),
      [](Napi::Env env, const EngineStatistics& value) { return convert::toJs(env, value); });
}

}  // namespace hearth
