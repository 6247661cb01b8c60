// An agent's answers to clients about objects under keys.
#include "base/crc32c.h"
#include "engine/client_volumes.h"
#include "engine/peer_service.h"

namespace hearth {

Task<Result<ControlMessage>> PeerService::onObjectControl(std::shared_ptr<const Capability> client,
                                                          ControlMessage request,
                                                          Interest interest) {
  ClientVolumes& volumes = *shard_.commons.clientVolumes;
  switch (static_cast<ClientMessage>(request.type)) {
    case ClientMessage::kPut: {
      Result<PutRequest> put = decodePutRequest(request.body);
      if (!put.ok()) co_return put.error();
      Task<Result<PutReply>> putting =
          volumes.put(shard_, *client, std::move(*put), std::move(interest));
      const Result<PutReply> reply = co_await putting;
      if (!reply.ok()) co_return reply.error();
      co_return ControlMessage{request.type, encode(*reply)};
    }
    case ClientMessage::kGet: {
      Task<Result<GetReply>> getting = getObject(std::move(client), request, std::move(interest));
      const Result<GetReply> reply = co_await getting;
      if (!reply.ok()) co_return reply.error();
      co_return ControlMessage{request.type, encode(*reply)};
    }
    default: {
      Result<KeysRequest> keys = decodeKeysRequest(request.body);
      if (!keys.ok()) co_return keys.error();
      const bool removes = request.type == static_cast<std::uint16_t>(ClientMessage::kDelete);
      Task<Result<KeysReply>> asking = removes
                                           ? volumes.removeKeys(shard_, *client, std::move(*keys))
                                           : volumes.exist(shard_, *client, std::move(*keys));
      const Result<KeysReply> reply = co_await asking;
      if (!reply.ok()) co_return reply.error();
      co_return ControlMessage{request.type, encode(*reply)};
    }
  }
}

Task<Result<GetReply>> PeerService::getObject(std::shared_ptr<const Capability> client,
                                              const ControlMessage& request, Interest interest) {
  Result<GetRequest> asked = decodeGetRequest(request.body);
  if (!asked.ok()) co_return asked.error();
  Task<Result<GetReply>> getting =
      shard_.commons.clientVolumes->get(shard_, *client, std::move(asked->name));
  Result<GetReply> reply = co_await getting;
  if (!reply.ok() || reply->size > asked->inlineBytes) co_return reply;
  Task<Result<BytesAnswer>> reading =
      onClientRead(std::move(client), reply->key, 0, static_cast<std::uint32_t>(reply->size),
                   std::move(interest));
  const Result<BytesAnswer> read = co_await reading;
  // The client finds out by its own read.
  if (!read.ok()) co_return reply;
  LentPayload::Piece piece{read->bytes, read->keep};
  if (read->lent != nullptr) {
    piece = read->lent->now();
    if (piece.bytes.empty()) {
      Task<Status> loading = read->lent->load();
      const Status loaded = co_await loading;
      if (!loaded.ok()) co_return reply;
      piece = read->lent->now();
    }
  }
  // Of the one block that the value is.
  if (piece.bytes.size() == reply->size && read->blockChecksums.size() == 1)
    reply->value = InlineValue{{piece.bytes.begin(), piece.bytes.end()}, read->blockChecksums[0]};
  co_return reply;
}

}  // namespace hearth
