#include "engine/volume_paths.h"

#include <cerrno>

#include "engine/client_writes.h"

namespace hearth {
namespace {

// Clients have no users: any pod may put files into a folder that another has made.
constexpr std::uint16_t kFolderMode = 0777;

}  // namespace

Error volumePathError(std::int32_t error, const std::string& name) {
  return volumeError(error, "looking for " + name + " in a volume");
}

Task<Result<tree::Attributes>> walkVolume(VolumeFiles& files, std::span<const std::string> names) {
  QueryReply reply = co_await files.query(AttributesQuery{tree::kRootInode});
  for (const std::string& name : names) {
    if (reply.error != 0 || !reply.attributes) break;
    reply = co_await files.query(LookUpQuery{{reply.attributes->id, name}});
  }
  if (reply.error != 0 || !reply.attributes)
    co_return volumePathError(reply.error != 0 ? reply.error : ENOENT,
                              names.empty() ? "/" : names.back());
  co_return *reply.attributes;
}

Task<Result<tree::Place>> placeInVolume(VolumeSessions& sessions,
                                        std::span<const std::string> names) {
  if (names.empty()) co_return Error{ErrorCode::kInvalidArgument, "the path is the volume itself"};
  if (!sessions.resumed())
    co_return Error{ErrorCode::kUnavailable,
                    "this agent takes over files that were written before it began"};
  tree::Place place{tree::kRootInode, names.back()};
  for (const std::string& name : names.first(names.size() - 1)) {
    QueryReply reply = co_await sessions.query(LookUpQuery{{place.folder, name}});
    if (reply.error == ENOENT) {
      const ChangeReply made = co_await sessions.change(
          tree::MakeFolder{.place = {place.folder, name}, .mode = kFolderMode});
      if (made.answer.error != 0 && made.answer.error != EEXIST)
        co_return volumePathError(made.answer.error, name);
      reply = co_await sessions.query(LookUpQuery{{place.folder, name}});
    }
    if (reply.error != 0 || !reply.attributes)
      co_return volumePathError(reply.error != 0 ? reply.error : ENOENT, name);
    place.folder = reply.attributes->id;
  }
  co_return place;
}

}  // namespace hearth
