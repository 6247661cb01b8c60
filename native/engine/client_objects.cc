// ClientVolumes: objects under keys.
#include <cerrno>
#include <utility>

#include "base/crc32c.h"
#include "engine/client_volumes.h"
#include "engine/volume_paths.h"

namespace hearth {
namespace {

// With the value in memory: writes and publishes it.
Task<Status> writeValue(Volume& volume, ClientIdentity client, ContentKey ticket, InlineValue value,
                        Interest interest) {
  const auto bytes = std::make_shared<std::vector<std::byte>>(std::move(value.bytes));
  const Status written =
      co_await volume.writes.write(ticket, client, 0, MemorySlice::of(*bytes, bytes));
  if (!written.ok()) {
    volume.writes.abandon(ticket, client);
    co_return written;
  }
  co_return co_await volume.writes.commit(ticket, client, std::move(interest));
}

}  // namespace

Task<Result<PutReply>> ClientVolumes::put(Shard& asking, const Capability& client,
                                          PutRequest request, Interest interest) {
  const auto volume = granted(client, CapabilityRight::kWrite, request.name.space.volume);
  if (!volume.ok()) co_return volume.error();
  if (request.value && crc32c(request.value->bytes) != request.value->checksum)
    co_return Error{ErrorCode::kCorrupt, "the value is not what its checksum says"};
  co_await (*volume)->shard.reactor->enter();
  PutReply reply;
  Status done;
  const auto begun =
      co_await (*volume)->objects.begin(client.client, std::move(request.name), request.length);
  if (!begun.ok()) {
    done = begun.error();
  } else if (*begun && request.value) {
    done = co_await writeValue(**volume, client.client, **begun, std::move(*request.value),
                               std::move(interest));
  } else {
    reply.ticket = *begun;
  }
  co_await asking.reactor->enter();
  if (!done.ok()) co_return done.error();
  co_return reply;
}

Task<Result<GetReply>> ClientVolumes::get(Shard& asking, const Capability& client,
                                          ObjectName name) {
  const auto volume = granted(client, CapabilityRight::kRead, name.space.volume);
  if (!volume.ok()) co_return volume.error();
  co_await (*volume)->shard.reactor->enter();
  Result<GetReply> reply = co_await getHere(**volume, std::move(name));
  co_await asking.reactor->enter();
  co_return reply;
}

Task<Result<GetReply>> ClientVolumes::getHere(Volume& volume, ObjectName name) {
  const Result<tree::InodeId> found = co_await volume.objects.find(std::move(name));
  if (!found.ok()) co_return found.error();
  PublishedVolumeFile file = co_await volume.sessions.openPublished(*found);
  // It was deleted since.
  if (file.error == ESTALE || (file.error == 0 && !file.content)) file.error = ENOENT;
  if (file.error != 0) co_return volumeError(file.error, "opening the value of a key");
  GetReply reply{.size = file.content->about.size, .key = file.content->about.key, .value = {}};
  keep(volume, std::move(file));
  co_return reply;
}

Task<Result<KeysReply>> ClientVolumes::exist(Shard& asking, const Capability& client,
                                             KeysRequest request) {
  return askKeys(asking, client, CapabilityRight::kRead, std::move(request));
}

Task<Result<KeysReply>> ClientVolumes::removeKeys(Shard& asking, const Capability& client,
                                                  KeysRequest request) {
  return askKeys(asking, client, CapabilityRight::kDelete, std::move(request));
}

Task<Result<KeysReply>> ClientVolumes::askKeys(Shard& asking, const Capability& client,
                                               CapabilityRight right, KeysRequest request) {
  const auto volume = granted(client, right, request.space.volume);
  if (!volume.ok()) co_return volume.error();
  co_await (*volume)->shard.reactor->enter();
  VolumeObjects& objects = (*volume)->objects;
  Task<Result<std::vector<bool>>> answering = right == CapabilityRight::kDelete
                                                  ? objects.remove(std::move(request))
                                                  : objects.exist(std::move(request));
  Result<std::vector<bool>> keys = co_await answering;
  co_await asking.reactor->enter();
  if (!keys.ok()) co_return keys.error();
  co_return KeysReply{std::move(*keys)};
}

}  // namespace hearth
