// Methods of the class `Engine` about the published files of writable volumes.
#include "base/content_key.h"
#include "binding/engine_wrap.h"
#include "engine/volume_listing.h"

namespace hearth {
namespace {

Napi::Value big(Napi::Env env, std::uint64_t value) { return Napi::BigInt::New(env, value); }

const char* kindName(tree::Kind kind) {
  switch (kind) {
    case tree::Kind::kFile:
      return "file";
    case tree::Kind::kFolder:
      return "folder";
    case tree::Kind::kSymlink:
      return "symlink";
    case tree::Kind::kFifo:
      return "FIFO";
    case tree::Kind::kSocket:
      return "socket";
  }
  return "file";
}

Napi::Object toJs(Napi::Env env, const tree::Attributes& attributes) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("inode", big(env, static_cast<std::uint64_t>(attributes.id)));
  object.Set("kind", kindName(attributes.inode.kind));
  object.Set("size", big(env, attributes.size));
  object.Set("mode", static_cast<std::uint32_t>(attributes.inode.mode));
  object.Set("modifiedAtNs", Napi::BigInt::New(env, attributes.inode.modifiedNs));
  object.Set("version", big(env, attributes.inode.version));
  return object;
}

Napi::Value toJs(Napi::Env env, const PublishedFolder& folder) {
  Napi::Array entries = Napi::Array::New(env, folder.entries.size());
  for (std::uint32_t at = 0; at < folder.entries.size(); ++at) {
    const PublishedEntry& entry = folder.entries[at];
    Napi::Object object = toJs(env, entry.attributes);
    object.Set("name", Napi::Buffer<char>::Copy(env, entry.name.data(), entry.name.size()));
    object.Set("cookie", big(env, entry.cookie));
    object.Set("contentKey", entry.key.hex());
    object.Set("target", Napi::Buffer<char>::Copy(env, entry.target.data(), entry.target.size()));
    entries.Set(at, object);
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("entries", entries);
  object.Set("more", folder.more);
  return object;
}

Napi::Value toJs(Napi::Env env, const std::vector<std::optional<PublishedFileContent>>& contents) {
  Napi::Array array = Napi::Array::New(env, contents.size());
  for (std::uint32_t at = 0; at < contents.size(); ++at) {
    if (!contents[at]) continue;  // undefined
    Napi::Object object = Napi::Object::New(env);
    object.Set("contentKey", contents[at]->key.hex());
    object.Set("size", big(env, contents[at]->size));
    object.Set("node", contents[at]->node);
    array.Set(at, object);
  }
  return array;
}

// These keep the listing while they run.
Task<Result<tree::Attributes>> lookUp(VolumeListing listing, std::string path) {
  co_return co_await listing.lookUp(std::move(path));
}
Task<Result<PublishedFolder>> list(VolumeListing listing, tree::InodeId folder, std::uint64_t after,
                                   bool contents) {
  co_return co_await listing.list(folder, after, contents);
}
Task<Result<std::vector<std::optional<PublishedFileContent>>>> contentsOf(
    VolumeListing listing, std::vector<tree::InodeId> files) {
  co_return co_await listing.contents(std::move(files));
}

VolumeListing listingOf(Engine& engine, const Napi::Value& id) {
  return {engine.home(), engine.volumes().find(convert::wideId(id, "id"))};
}

}  // namespace

Napi::Value EngineWrap::lookUpInVolume(const Napi::CallbackInfo& info) {
  Engine& of = engine(info.Env());
  return promise(info.Env(), lookUp(listingOf(of, info[0]), info[1].As<Napi::String>().Utf8Value()),
                 [](Napi::Env env, const Result<tree::Attributes>& found) -> Napi::Value {
                   return toJs(env, *found);
                 });
}

Napi::Value EngineWrap::listVolumeFolder(const Napi::CallbackInfo& info) {
  Engine& of = engine(info.Env());
  const tree::InodeId folder{convert::unsigned64(info[1], "folder")};
  const std::uint64_t after = convert::unsigned64(info[2], "after");
  return promise(
      info.Env(), list(listingOf(of, info[0]), folder, after, info[3].ToBoolean()),
      [](Napi::Env env, const Result<PublishedFolder>& listed) { return toJs(env, *listed); });
}

Napi::Value EngineWrap::volumeContents(const Napi::CallbackInfo& info) {
  Engine& of = engine(info.Env());
  std::vector<tree::InodeId> files;
  const auto inodes = info[1].As<Napi::Array>();
  for (std::uint32_t at = 0; at < inodes.Length(); ++at)
    files.push_back(tree::InodeId{convert::unsigned64(inodes.Get(at), "inode")});
  return promise(
      info.Env(), contentsOf(listingOf(of, info[0]), std::move(files)),
      [](Napi::Env env, const Result<std::vector<std::optional<PublishedFileContent>>>& found) {
        return toJs(env, *found);
      });
}

}  // namespace hearth
