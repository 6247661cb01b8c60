// Methods of the class `Engine` about manifests, locations and bytes.
#include "binding/engine_wrap.h"

namespace hearth {
namespace {

Napi::Value manifestValue(Napi::Env env, const Result<std::shared_ptr<Dataset>>& dataset) {
  return convert::toJs(env, *(*dataset)->manifest);
}

}  // namespace

Napi::Value EngineWrap::finishManifest(const Napi::CallbackInfo& info) {
  auto builder = ManifestBuilderWrap::Unwrap(info[0].As<Napi::Object>())->take();
  if (builder == nullptr) {
    return settled(info.Env(), Error{ErrorCode::kInvalidArgument,
                                     "the manifest builder has been finished already"});
  }
  return promise(info.Env(), engine(info.Env()).manifests().add(std::move(builder)), manifestValue);
}

Napi::Value EngineWrap::openManifest(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).manifests().open(convert::digest(info[0])),
                 manifestValue);
}

Napi::Value EngineWrap::removeManifest(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).manifests().remove(convert::digest(info[0])));
}

Napi::Value EngineWrap::manifests(const Napi::CallbackInfo& info) {
  using Datasets = std::vector<std::shared_ptr<Dataset>>;
  return promise(info.Env(), engine(info.Env()).manifests().list(),
                 [](Napi::Env env, const Datasets& datasets) {
                   Napi::Array array = Napi::Array::New(env);
                   for (const auto& each : datasets)
                     array.Set(array.Length(), convert::toJs(env, *each->manifest));
                   return array;
                 });
}

Napi::Value EngineWrap::entries(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::shared_ptr<Dataset> about = dataset(info[0]);
  const Manifest& manifest = *about->manifest;
  const auto options = info[1].As<Napi::Object>();
  const std::string path = convert::text(options, "path");
  const auto directory = manifest.lookUp(path);
  if (!directory) {
    return settled(env, Error{ErrorCode::kNotFound,
                              "the dataset has no entry " + (path.empty() ? "/" : path)});
  }
  const auto skip =
      static_cast<std::uint32_t>(convert::unsigned64(options.Get("offset"), "offset"));
  const auto limit = static_cast<std::uint32_t>(convert::unsigned64(options.Get("limit"), "limit"));
  const ManifestEntry top = manifest.entry(*directory);
  std::vector<std::uint32_t> found;
  if (top.kind != EntryKind::kDirectory || options.Get("recursive").ToBoolean()) {
    found = leavesBelow(manifest, *directory, skip, limit);
  } else {
    for (std::uint32_t i = skip; i < top.childCount && found.size() < limit; ++i)
      found.push_back(top.firstChild + i);
  }
  return rows(env, manifest, found);
}

Napi::Value EngineWrap::entriesAt(const Napi::CallbackInfo& info) {
  const std::shared_ptr<Dataset> about = dataset(info[0]);
  const EntryList indices = convert::entryList(info[1]);
  if (!indices) return rows(info.Env(), *about->manifest, {});
  for (const std::uint32_t index : *indices) {
    if (index < about->manifest->totals().entries) continue;
    return settled(info.Env(), Error{ErrorCode::kInvalidArgument,
                                     "the manifest has no entry " + std::to_string(index)});
  }
  return rows(info.Env(), *about->manifest, *indices);
}

Napi::Value EngineWrap::rows(Napi::Env env, const Manifest& manifest,
                             const std::vector<std::uint32_t>& indices) const {
  const ContentCache& cache = *engine(env).commons().cache;
  Napi::Array array = Napi::Array::New(env, indices.size());
  for (std::uint32_t i = 0; i < indices.size(); ++i) {
    const ManifestEntry entry = manifest.entry(indices[i]);
    const std::uint64_t resident =
        entry.kind == EntryKind::kFile ? cache.residentBytes(entry.key) : 0;
    array.Set(i, convert::entryToJs(env, manifest, indices[i], resident));
  }
  const auto deferred = Napi::Promise::Deferred::New(env);
  deferred.Resolve(array);
  return deferred.Promise();
}

void EngineWrap::setMirrors(const Napi::CallbackInfo& info) {
  std::vector<MirrorPlace> mirrors;
  const auto list = info[1].As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const auto mirror = list.Get(i).As<Napi::Object>();
    mirrors.push_back(
        {.name = convert::text(mirror, "name"), .sameTags = mirror.Get("sameTags").ToBoolean()});
  }
  revision(info[0])->sources.setMirrors(mirrors);
}

void EngineWrap::setOriginWait(const Napi::CallbackInfo& info) {
  revision(info[0])->absence.setBound(
      std::chrono::milliseconds(convert::unsigned64(info[1], "originWait")));
}

Napi::Value EngineWrap::sources(const Napi::CallbackInfo& info) {
  const std::shared_ptr<Dataset> of = revision(info[0]);
  const std::shared_ptr<const SourceSet> set = of->sources.now();
  std::vector<SourceStatistics> statistics = set->ranking.statistics(Clock::now());
  std::string& aside = statistics.front().aside;
  if (aside.empty()) aside = of->absence.words();
  return convert::toJs(info.Env(), *set, statistics);
}

std::shared_ptr<LocationCache> EngineWrap::locations(const Napi::Value& of) const {
  return revision(of)->sources.locations(convert::sourceIndex(of.As<Napi::Object>()));
}

std::shared_ptr<LocationCache> EngineWrap::usedLocations(const Napi::Value& of) const {
  const auto names = of.As<Napi::Object>();
  const auto used = engine(of.Env()).manifests().findUsed(convert::digest(names.Get("manifest")),
                                                          convert::text(names, "dataset"));
  return used == nullptr ? nullptr : used->sources.locations(convert::sourceIndex(names));
}

void EngineWrap::setOriginBase(const Napi::CallbackInfo& info) {
  if (const auto known = locations(info[0]))
    known->setBase(convert::location(info[1].As<Napi::Object>()));
}

void EngineWrap::setLocations(const Napi::CallbackInfo& info) {
  const std::shared_ptr<LocationCache> known = locations(info[0]);
  if (known == nullptr) return;
  const auto list = info[1].As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const auto row = list.Get(i).As<Napi::Object>();
    known->set(convert::entry(row.Get("entry")), convert::location(row));
  }
}

void EngineWrap::failLocations(const Napi::CallbackInfo& info) {
  const std::shared_ptr<LocationCache> known = usedLocations(info[0]);
  const Error error = convert::error(info[2].As<Napi::Object>());
  const EntryList entries = convert::entryList(info[1]);
  if (!entries || known == nullptr) return;
  for (const std::uint32_t entry : *entries) known->fail(entry, error);
}

void EngineWrap::forgetLocations(const Napi::CallbackInfo& info) {
  if (const auto known = usedLocations(info[0])) known->clear();
}

Napi::Value EngineWrap::residency(const Napi::CallbackInfo& info) {
  return promise(info.Env(), engine(info.Env()).contents().residency(dataset(info[0])),
                 [](Napi::Env env, const Residency& value) { return convert::toJs(env, value); });
}

Napi::Value EngineWrap::pin(const Napi::CallbackInfo& info) {
  engine(info.Env())
      .contents()
      .pin(*dataset(info[0]), convert::entryList(info[1]), info[2].ToString().Utf8Value());
  return settled(info.Env(), {});
}

Napi::Value EngineWrap::unpin(const Napi::CallbackInfo& info) {
  engine(info.Env()).contents().unpin(*dataset(info[0]), info[1].ToString().Utf8Value());
  return settled(info.Env(), {});
}

Napi::Value EngineWrap::evict(const Napi::CallbackInfo& info) {
  return promise(info.Env(),
                 engine(info.Env()).contents().evict(dataset(info[0]), convert::entryList(info[1])),
                 [](Napi::Env env, const Evicted& value) { return convert::toJs(env, value); });
}

Napi::Value EngineWrap::letGo(const Napi::CallbackInfo& info) {
  const LetGo what = info[2].ToString().Utf8Value() == "memory" ? LetGo::kMemory : LetGo::kCopy;
  return promise(
      info.Env(),
      engine(info.Env()).contents().letGo(dataset(info[0]), convert::entryList(info[1]), what),
      [](Napi::Env env, const Evicted& value) { return convert::toJs(env, value); });
}

void EngineWrap::setLastUse(const Napi::CallbackInfo& info) {
  const auto usedAt = static_cast<std::int64_t>(convert::unsigned64(info[1], "usedAt"));
  engine(info.Env()).contents().setLastUse(*dataset(info[0]), usedAt);
}

Napi::Value EngineWrap::verify(const Napi::CallbackInfo& info) {
  const bool withOrigin = info[2].ToString().Utf8Value() == "origin";
  return promise(
      info.Env(),
      engine(info.Env()).contents().verify(revision(info[0]), convert::entry(info[1]), withOrigin),
      [](Napi::Env env, const Result<Verified>& value) { return convert::toJs(env, *value); });
}

Napi::Value EngineWrap::read(const Napi::CallbackInfo& info) {
  const std::uint64_t offset = convert::unsigned64(info[2], "offset");
  const std::uint64_t length = convert::unsigned64(info[3], "length");
  using Bytes = Result<std::vector<std::byte>>;
  return promise(info.Env(),
                 engine(info.Env())
                     .contents()
                     .read(revision(info[0]), convert::entry(info[1]), offset, length),
                 [](Napi::Env env, const Bytes& bytes) {
                   Napi::Uint8Array array = Napi::Uint8Array::New(env, bytes->size());
                   if (!bytes->empty()) std::memcpy(array.Data(), bytes->data(), bytes->size());
                   return array;
                 });
}

Napi::Value EngineWrap::buildView(const Napi::CallbackInfo& info) {
  return promise(
      info.Env(), engine(info.Env()).contents().buildView(dataset(info[0])),
      [](Napi::Env env, const Result<std::string>& path) { return Napi::String::New(env, *path); });
}

}  // namespace hearth
