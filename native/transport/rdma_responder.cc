#include "transport/rdma_responder.h"

namespace hearth {

RdmaResponder::RdmaResponder(Reactor& reactor, Gate& gate, RdmaShard& shard, PeerHandler& handler,
                             std::string node, std::shared_ptr<PeerStatistics> account)
    : reactor_(reactor),
      gate_(gate),
      shard_(shard),
      handler_(handler),
      node_(std::move(node)),
      account_(std::move(account)) {}

Result<std::shared_ptr<RdmaResponder>> RdmaResponder::create(
    Reactor& reactor, Gate& gate, RdmaShard& shard, PeerHandler& handler, std::string node,
    std::shared_ptr<PeerStatistics> account, const EndpointAddress& theirs) {
  auto made = std::make_shared<RdmaResponder>(reactor, gate, shard, handler, std::move(node),
                                              std::move(account));
  auto endpoint =
      shard.endpoint([self = made.get()](const auto& message) { self->onMessage(message); });
  if (!endpoint.ok()) return endpoint.error();
  made->endpoint_ = std::move(*endpoint);
  if (const Status connected = made->endpoint_->connect(theirs); !connected.ok())
    return connected.error();
  return made;
}

void RdmaResponder::onMessage(const Endpoint::Message& message) {
  // Who asks has posted a receive for the answer.
  endpoint_->addCredit(1);
  const auto malformed = [&](const Error& error) { endpoint_->fail(error); };
  if (message.bytes.size() < kFrameHeaderBytes)
    return malformed({ErrorCode::kProtocolError, "an RDMA message is shorter than a frame"});
  const Result<FrameHeader> header = decodeHeader(message.bytes.first(kFrameHeaderBytes));
  if (!header.ok()) return malformed(header.error());
  const std::span<const std::byte> body = message.bytes.subspan(kFrameHeaderBytes);
  if (const Status intact = checkBody(*header, body); !intact.ok())
    return malformed(intact.error());
  if (header->type == FrameType::kPing)
    return send(nullptr, encodeEmptyFrame(FrameType::kPong, header->requestId));
  if (header->type != FrameType::kReadRequest)
    return malformed({ErrorCode::kProtocolError, "an RDMA message is no request"});
  Result<ReadRequest> request = decodeBody<ReadRequest>(body);
  if (!request.ok()) return malformed(request.error());
  const bool isSound = request->target && request->target->length == request->length &&
                       request->target->keys.size() == 1;
  if (!isSound || serving_ >= kRdmaRequests) {
    return malformed({ErrorCode::kProtocolError,
                      "an RDMA request names no window of its length, or is one too many"});
  }
  ++account_->rdmaRequests;
  gate_.spawn(serve(shared_from_this(), header->requestId, std::move(*request)));
}

Task<void> RdmaResponder::serve(std::shared_ptr<RdmaResponder> self, std::uint64_t requestId,
                                ReadRequest request) {
  ++self->serving_;
  ReadAnswer answer;
  Task<Result<MemorySlice>> loads = self->load(request, answer);
  Result<MemorySlice> loaded = co_await loads;
  std::unique_ptr<Transfer> write;
  if (loaded.ok()) {
    write = std::make_unique<Transfer>();
    write->local = std::move(*loaded);
    write->remoteAddress = request.target->address;
    write->remoteKey = static_cast<std::uint32_t>(request.target->keys.front().key);
    self->account_->rdmaBytesSent += request.length;
  } else {
    answer = {};
    answer.code = loaded.error().code;
    answer.sentence = loaded.error().message;
  }
  --self->serving_;
  self->send(std::move(write), encodeFrame(answer, requestId));
}

Task<Result<MemorySlice>> RdmaResponder::load(const ReadRequest& request, ReadAnswer& answer) {
  const Interest interest(Clock::now() + std::chrono::milliseconds(request.timeoutMs),
                          request.requestClass);
  Task<Result<BytesAnswer>> reading =
      handler_.onRead(node_, request.key, request.offset, request.length, interest);
  Result<BytesAnswer> read = co_await reading;
  co_await reactor_.enter();
  if (!read.ok()) co_return read.error();
  if (read->bytes.size() != request.length ||
      read->blockChecksums.size() != blocksOf(request.length)) {
    co_return Error{ErrorCode::kInternal,
                    "the handler answered with another number of bytes or checksums than asked"};
  }
  answer.payloadLength = request.length;
  answer.blockChecksums = std::move(read->blockChecksums);
  if (read->lent == nullptr) {
    Task<MemorySlice> readable = shard_.readable(read->bytes, read->keep);
    co_return co_await readable;
  }
  LentPayload::Piece piece = read->lent->now();
  if (piece.bytes.empty()) {
    const Status brought = co_await read->lent->load();
    co_await reactor_.enter();
    if (brought.ok()) piece = read->lent->now();
    if (!brought.ok()) co_return brought.error();
  }
  if (piece.bytes.size() != request.length)
    co_return Error{ErrorCode::kTryElsewhere, "this agent does not hold the bytes any more"};
  Task<MemorySlice> readable = shard_.readable(piece.bytes, nullptr);
  MemorySlice copy = co_await readable;
  read->lent->release();
  co_return copy;
}

void RdmaResponder::send(std::unique_ptr<Transfer> write, std::span<const std::byte> frame) {
  std::vector<std::unique_ptr<Transfer>> batch;
  if (write) batch.push_back(std::move(write));
  Result<MemorySlice> message = shard_.message(frame);
  if (!message.ok()) return endpoint_->fail(message.error());
  auto transfer = std::make_unique<Transfer>();
  transfer->kind = Transfer::Kind::kSend;
  transfer->local = std::move(*message);
  // The answer says that the bytes are there. A write that was not taken must not be followed by
  // one.
  if (!batch.empty()) {
    batch.front()->settled = [this](const Status& status) {
      if (!status.ok() && endpoint_->usable()) endpoint_->fail(status.error());
    };
  }
  batch.push_back(std::move(transfer));
  endpoint_->post(std::move(batch));
}

}  // namespace hearth
