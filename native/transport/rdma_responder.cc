#include "transport/rdma_responder.h"

#include <algorithm>
#include <utility>

namespace hearth {

RdmaResponder::RdmaResponder(With with) : with_(std::move(with)), ended_(with_.reactor) {}

Result<std::shared_ptr<RdmaResponder>> RdmaResponder::create(With with,
                                                             const EndpointAddress& theirs) {
  auto made = std::make_shared<RdmaResponder>(std::move(with));
  made->place_ = made->with_.shard.admit(made->with_.node);
  if (made->place_ == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 made->with_.node + " has as many RDMA endpoints here as it may; close some"};
  }
  auto channel = RdmaChannel::create(
      made->with_.shard, kRdmaRequests, 0,
      [self = made.get()](const RdmaChannel::Frame& frame) { return self->onFrame(frame); });
  if (!channel.ok()) return channel.error();
  made->channel_ = std::move(*channel);
  made->channel_->onEnd([self = made.get()] {
    for (const auto& [requestId, interest] : self->serving_) interest.end();
    self->with_.shard.staging().wake();
    self->ended_.set();
  });
  if (const Status connected = made->channel_->connect(theirs); !connected.ok())
    return connected.error();
  return made;
}

Status RdmaResponder::onFrame(const RdmaChannel::Frame& frame) {
  const std::uint64_t requestId = frame.header.requestId;
  if (frame.header.type == FrameType::kCancel) {
    if (const auto found = serving_.find(requestId); found != serving_.end()) found->second.end();
    with_.shard.staging().wake();
    return {};
  }
  if (frame.header.type != FrameType::kReadRequest)
    return Error{ErrorCode::kProtocolError, "an RDMA message is no request"};
  Result<ReadRequest> request = decodeBody<ReadRequest>(frame.body);
  if (!request.ok()) return request.error();
  return onRequest(requestId, std::move(*request));
}

Status RdmaResponder::onRequest(std::uint64_t requestId, ReadRequest request) {
  const bool isSound =
      request.target ? request.target->length == request.length && request.target->keys.size() == 1
                     : request.length <= kBlockBytes;
  if (!isSound) {
    return Error{ErrorCode::kProtocolError,
                 "an RDMA request names no window of its length, and is longer than a message"};
  }
  const Interest interest(Clock::now() + std::chrono::milliseconds(request.timeoutMs),
                          request.requestClass);
  if (serving_.size() >= kRdmaRequests || !serving_.try_emplace(requestId, interest).second)
    return Error{ErrorCode::kProtocolError, "an RDMA request is one too many"};
  if (!channel_->promise())
    return Error{ErrorCode::kProtocolError, "an RDMA request leaves no receive for its answer"};
  ++with_.account->rdmaRequests;
  with_.gate.spawn(serve(shared_from_this(), requestId, std::move(request), interest));
  return {};
}

Task<void> RdmaResponder::serve(std::shared_ptr<RdmaResponder> self, std::uint64_t requestId,
                                ReadRequest request, Interest interest) {
  ReadAnswer answer;
  Task<Result<Readable>> loads = self->load(request, interest, answer);
  Result<Readable> loaded = co_await loads;
  self->serving_.erase(requestId);
  self->channel_->redeem();
  if (loaded.ok() && interest.lives()) {
    self->answer(requestId, request, std::move(answer), std::move(*loaded));
    co_return;
  }
  // The asker may have closed the window once its time was over.
  const Error error =
      !loaded.ok() ? loaded.error() : Error{ErrorCode::kCancelled, "nobody waits for it any more"};
  answer = {};
  answer.code = error.code;
  answer.sentence = error.message;
  const Status sent = self->channel_->send(encodeFrame(answer, requestId));
  if (!sent.ok()) self->channel_->fail(sent.error());
}

void RdmaResponder::answer(std::uint64_t requestId, const ReadRequest& request, ReadAnswer answer,
                           Readable from) {
  count(from.bytes);
  std::unique_ptr<Transfer> write;
  MemoryVector payload;
  if (request.target) {
    write = std::make_unique<Transfer>();
    write->local = std::move(from.bytes);
    write->remoteAddress = request.target->address;
    write->remoteKey = static_cast<std::uint32_t>(request.target->keys.front().key);
  } else {
    payload = std::move(from.bytes);
  }
  with_.account->rdmaBytesSent += request.length;
  RailStatistics& statistics = with_.account->rdmaRails[with_.port];
  ++statistics.answers;
  statistics.bytesSent += request.length;
  (from.isCopy ? statistics.bytesCopied : statistics.bytesInPlace) += request.length;
  const Status sent =
      channel_->send(encodeFrame(answer, requestId), std::move(write), std::move(payload));
  if (!sent.ok()) channel_->fail(sent.error());
}

void RdmaResponder::count(MemorySlice& bytes) {
  if (underWay_->answers++ == 0) underWay_->changed = Clock::now();
  const void* const address = bytes.owner.get();
  bytes.owner = {address,
                 [underWay = underWay_, owner = std::move(bytes.owner)](const void*) mutable {
                   owner.reset();
                   --underWay->answers;
                   underWay->changed = Clock::now();
                 }};
  if (std::exchange(isWatched_, true)) return;
  with_.gate.spawn(watch(shared_from_this()));
}

Task<void> RdmaResponder::watch(std::shared_ptr<RdmaResponder> self) {
  const UnderWay& underWay = *self->underWay_;
  const Clock::duration hold = self->with_.shard.times().hold;
  while (underWay.answers != 0 && self->channel_->usable()) {
    const bool isForever = hold > Clock::time_point::max() - underWay.changed;
    const Clock::time_point until = isForever ? Clock::time_point::max() : underWay.changed + hold;
    if (Clock::now() >= until) {
      self->channel_->fail({ErrorCode::kDeadlineExceeded,
                            "the RDMA device finished no answer for " +
                                std::to_string(hold / std::chrono::milliseconds(1)) + " ms"});
      break;
    }
    co_await self->ended_.waitUntil(until);
  }
  self->isWatched_ = false;
}

Task<Result<LentPayload::Piece>> RdmaResponder::bytesOf(const BytesAnswer& read) {
  if (read.lent == nullptr) co_return LentPayload::Piece{read.bytes, read.keep};
  LentPayload::Piece piece = read.lent->now();
  if (piece.bytes.empty()) {
    const Status brought = co_await read.lent->load();
    co_await with_.reactor.enter();
    if (!brought.ok()) co_return brought.error();
    piece = read.lent->now();
  }
  if (piece.bytes.size() != read.bytes.size())
    co_return Error{ErrorCode::kTryElsewhere, "this agent does not hold the bytes any more"};
  co_return piece;
}

Task<Result<RdmaResponder::Readable>> RdmaResponder::load(const ReadRequest& request,
                                                          const Interest& interest,
                                                          ReadAnswer& answer) {
  Task<Result<BytesAnswer>> reading =
      with_.handler.onRead(with_.node, request.key, request.offset, request.length, interest);
  Result<BytesAnswer> read = co_await reading;
  co_await with_.reactor.enter();
  if (!read.ok()) co_return read.error();
  if (read->bytes.size() != request.length ||
      read->blockChecksums.size() != blocksOf(request.length)) {
    co_return Error{ErrorCode::kInternal,
                    "the handler answered with another number of bytes or checksums than asked"};
  }
  answer.payloadLength = request.length;
  answer.blockChecksums = std::move(read->blockChecksums);
  {
    Task<Result<LentPayload::Piece>> finding = bytesOf(*read);
    Result<LentPayload::Piece> piece = co_await finding;
    if (!piece.ok()) co_return piece.error();
    auto inPlace = with_.shard.inPlace(with_.node, piece->bytes, std::move(piece->keep));
    if (inPlace) co_return Readable{std::move(*inPlace)};
  }
  // An answer that waits for a buffer holds no slot: its lent bytes are looked for again later.
  Task<Result<MemorySlice>> acquiring = with_.shard.staging().acquire(with_.node, interest);
  Result<MemorySlice> buffer = co_await acquiring;
  if (!buffer.ok()) co_return buffer.error();
  Task<Result<LentPayload::Piece>> finding = bytesOf(*read);
  const Result<LentPayload::Piece> piece = co_await finding;
  if (!piece.ok()) co_return piece.error();
  buffer->size = piece->bytes.size();
  std::ranges::copy(piece->bytes, buffer->bytes().begin());
  co_return Readable{std::move(*buffer), true};
}

}  // namespace hearth
