#include "engine/client_volumes.h"

#include <cerrno>
#include <utility>

#include "engine/volume_paths.h"

namespace hearth {
namespace {

// Clients have no users: any pod may write what another has made.
constexpr std::uint16_t kFileMode = 0666;

ResolvedKind kindOf(tree::Kind kind) {
  if (kind == tree::Kind::kFolder) return ResolvedKind::kFolder;
  return kind == tree::Kind::kSymlink ? ResolvedKind::kSymlink : ResolvedKind::kFile;
}

}  // namespace

Result<std::shared_ptr<Volume>> ClientVolumes::granted(const Capability& client,
                                                       CapabilityRight right,
                                                       const std::string& name) const {
  if (!client.grantsVolume(right, name))
    return Error{ErrorCode::kPermissionDenied, "the token does not grant that on this volume"};
  return volumes_.findNamed(name);
}

Result<ClientVolumes::NamedPath> ClientVolumes::find(const Capability& client,
                                                     CapabilityRight right,
                                                     std::string_view path) const {
  const Error bad{ErrorCode::kInvalidArgument, "this is no path of a volume"};
  if (!liesIn(kVolumeRoot, path) || path.size() == kVolumeRoot.size()) return bad;
  std::vector<std::string> names;
  for (std::string_view rest = path.substr(kVolumeRoot.size() + 1);;) {
    const std::size_t slash = rest.find('/');
    const std::string_view name = rest.substr(0, slash);
    if (name == "." || name == "..") return bad;
    if (!name.empty()) names.emplace_back(name);
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (names.empty()) return bad;
  Result<std::shared_ptr<Volume>> volume = granted(client, right, names.front());
  if (!volume.ok()) return volume.error();
  names.erase(names.begin());
  return NamedPath{std::move(*volume), std::move(names)};
}

Task<Result<ResolvedPath>> ClientVolumes::resolve(Shard& asking, const Capability& client,
                                                  std::string path) {
  const Result<NamedPath> named = find(client, CapabilityRight::kRead, path);
  if (!named.ok()) co_return named.error();
  Volume& volume = *named->volume;
  co_await volume.shard.reactor->enter();
  Result<ResolvedPath> resolved = co_await resolveHere(volume, named->names);
  co_await asking.reactor->enter();
  co_return resolved;
}

Task<Result<ResolvedPath>> ClientVolumes::resolveHere(Volume& volume,
                                                      std::span<const std::string> names) {
  const Result<tree::Attributes> found = co_await walkVolume(volume.sessions, names);
  if (!found.ok()) co_return found.error();
  ResolvedPath resolved;
  resolved.kind = kindOf(found->inode.kind);
  resolved.executable = (found->inode.mode & 0100) != 0;
  resolved.modifiedNs = found->inode.modifiedNs;
  if (found->inode.kind != tree::Kind::kFile) co_return resolved;
  PublishedVolumeFile file = co_await volume.sessions.openPublished(found->id);
  if (file.error != 0) co_return volumePathError(file.error, names.back());
  resolved.modifiedNs = file.attributes.inode.modifiedNs;
  if (!file.content) co_return resolved;
  const ManifestEntry about = file.content->about;
  resolved.size = about.size;
  resolved.key = about.key;
  resolved.shard = static_cast<std::uint32_t>(commons_.owner(about.key).index);
  keep(volume, std::move(file));
  co_return resolved;
}

Task<Status> ClientVolumes::create(Shard& asking, const Capability& client, std::string path) {
  const Result<NamedPath> named = find(client, CapabilityRight::kWrite, path);
  if (!named.ok()) co_return named.error();
  co_await named->volume->shard.reactor->enter();
  Status created = co_await createHere(*named->volume, named->names);
  co_await asking.reactor->enter();
  co_return created;
}

Task<Status> ClientVolumes::createHere(Volume& volume, std::span<const std::string> names) {
  Result<tree::Place> place = co_await placeInVolume(volume.sessions, names);
  if (!place.ok()) co_return place.error();
  const ChangeReply made =
      co_await volume.sessions.change(tree::Create{.place = std::move(*place), .mode = kFileMode});
  if (made.answer.error != 0) co_return volumePathError(made.answer.error, names.back());
  co_return Status();
}

Task<Status> ClientVolumes::remove(Shard& asking, const Capability& client, std::string path) {
  const Result<NamedPath> named = find(client, CapabilityRight::kDelete, path);
  if (!named.ok()) co_return named.error();
  co_await named->volume->shard.reactor->enter();
  Status removed = co_await removeHere(*named->volume, named->names);
  co_await asking.reactor->enter();
  co_return removed;
}

Task<Status> ClientVolumes::removeHere(Volume& volume, std::span<const std::string> names) {
  if (names.empty()) co_return Error{ErrorCode::kInvalidArgument, "the path is the volume itself"};
  const Result<tree::Attributes> folder =
      co_await walkVolume(volume.sessions, names.first(names.size() - 1));
  if (!folder.ok()) co_return folder.error();
  const ChangeReply gone =
      co_await volume.sessions.change(tree::Unlink{{folder->id, names.back()}});
  if (gone.answer.error != 0) co_return volumePathError(gone.answer.error, names.back());
  co_return Status();
}

Task<Result<ContentKey>> ClientVolumes::beginWrite(Shard& asking, const Capability& client,
                                                   WriteRange range) {
  const Result<NamedPath> named = find(client, CapabilityRight::kWrite, range.path);
  if (!named.ok()) co_return named.error();
  Volume& volume = *named->volume;
  co_await volume.shard.reactor->enter();
  Result<ContentKey> ticket = Error{};
  if (Result<tree::Place> place = co_await placeInVolume(volume.sessions, named->names);
      place.ok()) {
    ticket =
        co_await volume.writes.begin(client.client, std::move(*place), range.offset, range.length);
  } else {
    ticket = place.error();
  }
  co_await asking.reactor->enter();
  co_return ticket;
}

std::shared_ptr<Volume> ClientVolumes::volumeOf(const ContentKey& ticket) const {
  return volumes_.find(ClientWrites::volumeOf(ticket));
}

void ClientVolumes::keep(const Volume& volume, PublishedVolumeFile file) {
  Content content{file.content->about.key, volume.options.name, *file.content,
                  std::move(file.reading), Clock::now() + kContentStays};
  std::list<Content> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto known = byKey_.find(content.key);
  if (known != byKey_.end()) gone.splice(gone.end(), contents_, known->second);
  contents_.push_front(std::move(content));
  byKey_[contents_.front().key] = contents_.begin();
  const Clock::time_point now = Clock::now();
  while (contents_.size() > kMaxContents || contents_.back().until < now) {
    byKey_.erase(contents_.back().key);
    gone.splice(gone.end(), contents_, std::prev(contents_.end()));
  }
}

std::optional<FileReference> ClientVolumes::opened(const Capability& client,
                                                   const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = byKey_.find(key);
  if (known == byKey_.end()) return std::nullopt;
  const Content& content = *known->second;
  if (!client.grantsVolume(CapabilityRight::kRead, content.volume)) return std::nullopt;
  return content.file;
}

}  // namespace hearth
