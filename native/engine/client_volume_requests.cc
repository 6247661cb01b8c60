// An agent's answers to clients that write files of volumes.
#include "engine/client_volumes.h"
#include "engine/peer_service.h"

namespace hearth {
namespace {

// One part of a range, on its way into the file.
class PartSink final : public WriteSink {
 public:
  PartSink(std::shared_ptr<Volume> volume, std::shared_ptr<const Capability> client,
           const WriteRequest& request, ClientTransit::Pass pass)
      : volume_(std::move(volume)),
        client_(std::move(client)),
        ticket_(request.key),
        offset_(request.offset),
        pass_(std::move(pass)) {
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(request.length);
    memory_ = MemorySlice::of({bytes.get(), request.length}, bytes);
  }

  [[nodiscard]] const MemoryVector& memory() const override { return memory_; }
  [[nodiscard]] Task<Status> landed(std::vector<std::uint32_t>) override {
    co_await volume_->shard.reactor->enter();
    co_return co_await volume_->writes.write(ticket_, client_->client, offset_, memory_);
  }

 private:
  const std::shared_ptr<Volume> volume_;
  const std::shared_ptr<const Capability> client_;
  const ContentKey ticket_;
  const std::uint64_t offset_;
  const ClientTransit::Pass pass_;
  MemoryVector memory_;
};

Error noSuchTicket() {
  return {ErrorCode::kTryElsewhere, "this agent does not know the range that is written"};
}

}  // namespace

Task<Result<std::unique_ptr<WriteSink>>> PeerService::onClientWrite(
    std::shared_ptr<const Capability> client, WriteRequest request, Interest interest) {
  std::shared_ptr<Volume> volume = shard_.commons.clientVolumes->volumeOf(request.key);
  if (volume == nullptr) co_return noSuchTicket();
  co_await volume->shard.reactor->enter();
  const Status awaited =
      volume->writes.check(request.key, client->client, request.offset, request.length);
  co_await shard_.reactor->enter();
  if (!awaited.ok()) co_return awaited.error();
  Task<ClientTransit::Pass> entering = shard_.clientTransit->enter(client->client, request.length);
  ClientTransit::Pass pass = co_await entering;
  if (!interest.lives()) co_return Error{ErrorCode::kCancelled, "the client has not waited"};
  co_return std::unique_ptr<WriteSink>(
      std::make_unique<PartSink>(std::move(volume), std::move(client), request, std::move(pass)));
}

Task<Result<ControlMessage>> PeerService::onVolumeControl(std::shared_ptr<const Capability> client,
                                                          ControlMessage request,
                                                          Interest interest) {
  ClientVolumes& volumes = *shard_.commons.clientVolumes;
  ControlMessage answer{request.type, {}};
  Status done;
  switch (static_cast<ClientMessage>(request.type)) {
    case ClientMessage::kWrite: {
      Result<WriteRange> range = decodeWriteRange(request.body);
      if (!range.ok()) co_return range.error();
      Task<Result<ContentKey>> beginning = volumes.beginWrite(shard_, *client, std::move(*range));
      const Result<ContentKey> ticket = co_await beginning;
      if (!ticket.ok()) co_return ticket.error();
      answer.body = encode(*ticket);
      co_return answer;
    }
    case ClientMessage::kCommit:
    case ClientMessage::kAbandon: {
      Task<Status> ending = endWrite(*client, request, std::move(interest));
      done = co_await ending;
      break;
    }
    default: {
      const bool creates = request.type == static_cast<std::uint16_t>(ClientMessage::kCreate);
      Result<std::string> path = decodePath(request.body);
      if (!path.ok()) co_return path.error();
      Task<Status> changing = creates ? volumes.create(shard_, *client, std::move(*path))
                                      : volumes.remove(shard_, *client, std::move(*path));
      done = co_await changing;
      break;
    }
  }
  if (!done.ok()) co_return done.error();
  co_return answer;
}

Task<Status> PeerService::endWrite(const Capability& client, const ControlMessage& request,
                                   Interest interest) {
  const Result<ContentKey> ticket = decodeTicket(request.body);
  if (!ticket.ok()) co_return ticket.error();
  const std::shared_ptr<Volume> volume = shard_.commons.clientVolumes->volumeOf(*ticket);
  if (volume == nullptr) co_return noSuchTicket();
  co_await volume->shard.reactor->enter();
  Status ended;
  if (request.type == static_cast<std::uint16_t>(ClientMessage::kCommit)) {
    ended = co_await volume->writes.commit(*ticket, client.client, std::move(interest));
  } else {
    volume->writes.abandon(*ticket, client.client);
  }
  co_await shard_.reactor->enter();
  co_return ended;
}

}  // namespace hearth
