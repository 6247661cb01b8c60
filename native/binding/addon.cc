// The addon's door: `open(options)` and the classes `ManifestBuilder`, `PathFilter` and
// `ProxyChoice`. When its
// environment ends (process.exit, the end of a worker), engines that are still open are closed and
// their threads joined.
#include <napi.h>

#include "binding/engine_wrap.h"

namespace hearth {
namespace {

constexpr napi_type_tag kBuilderTag = {0x68656172746862ull, 0x75696c646572ull};

}  // namespace

Napi::Function ManifestBuilderWrap::define(Napi::Env env) {
  return DefineClass(env, "ManifestBuilder",
                     {InstanceMethod<&ManifestBuilderWrap::add>("add"),
                      InstanceMethod<&ManifestBuilderWrap::unusable>("unusable")});
}

ManifestBuilderWrap::ManifestBuilderWrap(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ManifestBuilderWrap>(info),
      builder_(std::make_unique<ManifestBuilder>(info[0].ToBoolean())) {
  info.This().As<Napi::Object>().TypeTag(&kBuilderTag);
}

void ManifestBuilderWrap::add(const Napi::CallbackInfo& info) {
  if (builder_ == nullptr)
    throw Napi::Error::New(info.Env(), "the manifest builder has been finished already");
  const auto rows = info[0].As<Napi::Array>();
  for (std::uint32_t i = 0; i < rows.Length(); ++i) {
    const Napi::HandleScope scope(info.Env());
    builder_->add(convert::manifestRow(rows.Get(i).As<Napi::Object>()));
  }
}

Napi::Value ManifestBuilderWrap::unusable(const Napi::CallbackInfo& info) {
  Napi::Array array = Napi::Array::New(info.Env());
  if (builder_ == nullptr) return array;
  for (const std::string& line : builder_->unusable()) array.Set(array.Length(), line);
  return array;
}

Napi::Function PathFilterWrap::define(Napi::Env env) {
  return DefineClass(env, "PathFilter", {InstanceMethod<&PathFilterWrap::matches>("matches")});
}

// new PathFilter(include: string[], exclude: string[])
PathFilterWrap::PathFilterWrap(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<PathFilterWrap>(info) {
  Result<PathFilter> filter =
      PathFilter::compile(convert::texts(info[0], "include"), convert::texts(info[1], "exclude"));
  if (!filter.ok()) throw Napi::Error(info.Env(), convert::toJs(info.Env(), filter.error()));
  filter_ = std::move(*filter);
}

Napi::Value PathFilterWrap::matches(const Napi::CallbackInfo& info) {
  if (!info[0].IsString()) throw Napi::TypeError::New(info.Env(), "path: a string is expected");
  return Napi::Boolean::New(info.Env(), filter_->matches(info[0].As<Napi::String>().Utf8Value()));
}

Napi::Function ProxyChoiceWrap::define(Napi::Env env) {
  return DefineClass(env, "ProxyChoice", {InstanceMethod<&ProxyChoiceWrap::of>("of")});
}

// new ProxyChoice(proxies: { http: string, https: string, none: string })
ProxyChoiceWrap::ProxyChoiceWrap(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ProxyChoiceWrap>(info) {
  Result<ProxyChoice> choice =
      ProxyChoice::create(convert::proxyOptions(info[0].As<Napi::Object>()));
  if (!choice.ok()) throw Napi::Error(info.Env(), convert::toJs(info.Env(), choice.error()));
  choice_ = std::move(*choice);
}

Napi::Value ProxyChoiceWrap::of(const Napi::CallbackInfo& info) {
  if (!info[0].IsString()) throw Napi::TypeError::New(info.Env(), "url: a string is expected");
  return Napi::String::New(info.Env(), choice_.of(info[0].As<Napi::String>().Utf8Value()));
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  auto* const addon = new AddonData(env);
  env.SetInstanceData(addon);
  addon->engineClass = Napi::Persistent(EngineWrap::define(env));
  addon->engineClass.SuppressDestruct();
  env.AddCleanupHook([addon] {
    // First the bridge: what the engine still says while it closes has no listener any more.
    addon->bridge->close();
    for (std::thread& thread : addon->threads) thread.join();
    for (const std::shared_ptr<Engine>& engine : addon->open) engine->close();
    addon->open.clear();
  });
  exports.Set("ManifestBuilder", ManifestBuilderWrap::define(env));
  exports.Set("PathFilter", PathFilterWrap::define(env));
  exports.Set("ProxyChoice", ProxyChoiceWrap::define(env));
  exports.Set("open", Napi::Function::New(env, EngineWrap::open, "open"));
  return exports;
}

NODE_API_MODULE(hearth, initialise)

}  // namespace hearth
