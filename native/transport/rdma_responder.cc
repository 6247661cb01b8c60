#include "transport/rdma_responder.h"

namespace hearth {

RdmaResponder::RdmaResponder(With with) : with_(std::move(with)), ended_(with_.reactor) {}

Result<std::shared_ptr<RdmaResponder>> RdmaResponder::create(With with,
                                                             const EndpointAddress& theirs) {
  auto made = std::make_shared<RdmaResponder>(std::move(with));
  auto channel = RdmaChannel::create(
      made->with_.shard, kRdmaRequests, 0,
      [self = made.get()](const RdmaChannel::Frame& frame) { return self->onFrame(frame); });
  if (!channel.ok()) return channel.error();
  made->channel_ = std::move(*channel);
  made->channel_->onEnd([self = made.get()] {
    for (const auto& [requestId, interest] : self->serving_) interest.end();
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
  Task<Result<MemorySlice>> loads = self->load(request, interest, answer);
  Result<MemorySlice> loaded = co_await loads;
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
                           MemorySlice bytes) {
  std::unique_ptr<Transfer> write;
  MemoryVector payload;
  if (request.target) {
    write = std::make_unique<Transfer>();
    write->local = std::move(bytes);
    write->remoteAddress = request.target->address;
    write->remoteKey = static_cast<std::uint32_t>(request.target->keys.front().key);
  } else {
    payload = std::move(bytes);
  }
  with_.account->rdmaBytesSent += request.length;
  RailStatistics& statistics = with_.account->rdmaRails[with_.port];
  ++statistics.answers;
  statistics.bytesSent += request.length;
  const Status sent =
      channel_->send(encodeFrame(answer, requestId), std::move(write), std::move(payload));
  if (!sent.ok()) channel_->fail(sent.error());
}

Task<Result<MemorySlice>> RdmaResponder::load(const ReadRequest& request, const Interest& interest,
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
  if (read->lent == nullptr) {
    Task<MemorySlice> readable = with_.shard.readable(read->bytes, read->keep);
    co_return co_await readable;
  }
  LentPayload::Piece piece = read->lent->now();
  if (piece.bytes.empty()) {
    const Status brought = co_await read->lent->load();
    co_await with_.reactor.enter();
    if (brought.ok()) piece = read->lent->now();
    if (!brought.ok()) co_return brought.error();
  }
  if (piece.bytes.size() != request.length)
    co_return Error{ErrorCode::kTryElsewhere, "this agent does not hold the bytes any more"};
  Task<MemorySlice> readable = with_.shard.readable(piece.bytes, nullptr);
  MemorySlice copy = co_await readable;
  read->lent->release();
  co_return copy;
}

}  // namespace hearth
