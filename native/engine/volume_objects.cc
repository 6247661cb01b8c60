#include "engine/volume_objects.h"

#include <cerrno>
#include <utility>

#include "engine/volume_paths.h"
#include "wire/authentication.h"

namespace hearth {
namespace {

// No key space has this name: those are 64 digits.
const std::string kWritingFolder = "writing";

// The folder that was known has gone: it is looked for again.
bool hasMoved(std::int32_t error) { return error == ESTALE || error == ENOTDIR; }

}  // namespace

Task<Result<tree::InodeId>> VolumeObjects::folder(Names below, bool makes) {
  const Clock::time_point now = Clock::now();
  const auto known = folders_.find(below);
  if (known != folders_.end() && known->second.until > now) co_return known->second.inode;
  Names names{std::string(kObjectFolder)};
  names.insert(names.end(), below.begin(), below.end());
  tree::InodeId inode = tree::kNoInode;
  if (makes) {
    names.emplace_back();  // the place of a name in the folder
    const Result<tree::Place> place = co_await placeInVolume(sessions_, names);
    if (!place.ok()) co_return place.error();
    inode = place->folder;
  } else {
    const Result<tree::Attributes> found = co_await walkVolume(sessions_, names);
    if (!found.ok()) co_return found.error();
    inode = found->id;
  }
  if (folders_.size() >= kMaxFolders) folders_.clear();
  folders_[std::move(below)] = {inode, now + kFolderStays};
  co_return inode;
}

Task<Result<tree::InodeId>> VolumeObjects::writingFolder() {
  // A name of any node is one of a folder.
  const Sha256Digest node = Sha256::of(std::as_bytes(std::span(node_)));
  Result<tree::InodeId> found = co_await folder({kWritingFolder, hexOf(node)}, true);
  if (!found.ok() || prepared_) co_return found;
  co_await preparing_.acquire(1);
  const Status removed = prepared_ ? Status() : co_await removeLeft(*found);
  prepared_ = removed.ok();
  preparing_.release(1);
  if (!removed.ok()) co_return removed.error();
  co_return found;
}

Task<Status> VolumeObjects::removeLeft(tree::InodeId folder) {
  for (bool more = true; more;) {
    const QueryReply list = co_await sessions_.query(ListQuery{folder, 0, kMaxListed});
    if (list.error != 0) co_return volumeError(list.error, "listing unfinished values");
    for (const ListedEntry& entry : list.entries) {
      const ChangeReply gone = co_await sessions_.change(tree::Unlink{{folder, entry.name}});
      if (gone.answer.error != 0 && gone.answer.error != ENOENT)
        co_return volumeError(gone.answer.error, "removing an unfinished value");
    }
    more = list.more;
  }
  co_return Status();
}

Task<Result<std::optional<ContentKey>>> VolumeObjects::begin(ClientIdentity client, ObjectName name,
                                                             std::uint64_t length) {
  const Result<tree::InodeId> space = co_await folder({hexOf(name.space.digest)}, true);
  if (!space.ok()) co_return space.error();
  tree::Place place{*space, hexOf(name.key)};
  const QueryReply there = co_await sessions_.query(LookUpQuery{place});
  if (there.error == 0) co_return std::optional<ContentKey>();
  if (hasMoved(there.error)) folders_.clear();
  if (there.error != ENOENT) co_return volumeError(there.error, "looking for a key");
  const Result<tree::InodeId> writing = co_await writingFolder();
  if (!writing.ok()) co_return writing.error();
  const Result<ContentKey> ticket = co_await writes_.beginWhole(
      std::move(client), {*writing, hexOf(randomNonce())}, length, std::move(place));
  if (!ticket.ok()) co_return ticket.error();
  co_return std::optional(*ticket);
}

Task<Result<tree::InodeId>> VolumeObjects::find(ObjectName name) {
  const Result<tree::InodeId> space = co_await folder({hexOf(name.space.digest)}, false);
  if (!space.ok()) co_return space.error();
  const QueryReply found = co_await sessions_.query(LookUpQuery{{*space, hexOf(name.key)}});
  if (hasMoved(found.error)) folders_.clear();
  if (found.error != 0 || !found.attributes)
    co_return volumeError(found.error != 0 ? found.error : ENOENT, "looking for a key");
  co_return found.attributes->id;
}

Task<Result<std::vector<bool>>> VolumeObjects::exist(KeysRequest request) {
  const Result<tree::InodeId> space = co_await folder({hexOf(request.space.digest)}, false);
  if (space.code() == ErrorCode::kNotFound) co_return std::vector<bool>(request.keys.size());
  if (!space.ok()) co_return space.error();
  ExistQuery asked{.folder = *space, .names = {}};
  asked.names.reserve(request.keys.size());
  for (const Sha256Digest& key : request.keys) asked.names.push_back(hexOf(key));
  QueryReply reply = co_await sessions_.query(std::move(asked));
  if (hasMoved(reply.error)) folders_.clear();
  if (reply.error != 0) co_return volumeError(reply.error, "looking for keys");
  if (reply.exist.size() != request.keys.size())
    co_return Error{ErrorCode::kProtocolError, "the leader has answered for other keys"};
  co_return std::move(reply.exist);
}

Task<Result<std::vector<bool>>> VolumeObjects::remove(KeysRequest request) {
  const Result<tree::InodeId> space = co_await folder({hexOf(request.space.digest)}, false);
  std::vector<bool> removed(request.keys.size());
  if (space.code() == ErrorCode::kNotFound) co_return removed;
  if (!space.ok()) co_return space.error();
  for (std::size_t i = 0; i < request.keys.size(); ++i) {
    const ChangeReply gone =
        co_await sessions_.change(tree::Unlink{{*space, hexOf(request.keys[i])}});
    removed[i] = gone.answer.error == 0;
    if (hasMoved(gone.answer.error)) folders_.clear();
    if (gone.answer.error != 0 && gone.answer.error != ENOENT)
      co_return volumeError(gone.answer.error, "removing a key");
  }
  co_return removed;
}

}  // namespace hearth
