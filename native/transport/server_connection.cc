#include "transport/server_connection.h"

#include <algorithm>
#include <array>

#include "transport/limits.h"
#include "transport/request_terms.h"

namespace hearth {
namespace {

const Error kGone{ErrorCode::kTryElsewhere, "this agent does not hold the bytes any more"};
const Error kWithdrawn{ErrorCode::kCancelled, "the asker no longer wants it"};

template <class Answer>
std::vector<std::byte> errorFrame(std::uint64_t requestId, const Error& error) {
  Answer answer;
  answer.code = error.code == ErrorCode::kOk ? ErrorCode::kInternal : error.code;
  answer.sentence = error.message;
  return encodeFrame(answer, requestId);
}

}  // namespace

ServerConnection::ServerConnection(Reactor& reactor, Gate& gate, Channel channel,
                                   Clock::duration probeInterval, Agreed with, Credit limit,
                                   PeerHandler& handler, WriteOrder& order)
    : Connection(reactor, gate, std::move(channel), probeInterval),
      with_(std::move(with)),
      limit_(limit),
      handler_(handler),
      order_(order) {
  if (with_.client) expectPace(SendPace(kSlowestClient, kClientPaceProbes * probeInterval));
}

ServerConnection::Self ServerConnection::self() {
  return std::static_pointer_cast<ServerConnection>(shared_from_this());
}

void ServerConnection::giveCredit() {
  Credit credit = limit_;
  if (!has(with_.features, WireFeature::kWrites)) credit.writes.reset();
  queue_.push({.frame = encodeFrame(credit)});
}

Status ServerConnection::admit(std::uint64_t requestId, Serving serving) {
  if (requestId <= lastId_) {
    return Error{ErrorCode::kProtocolError, "the other side used a request id twice"};
  }
  lastId_ = requestId;
  const std::uint64_t cost = serving.cost;
  const bool writes = serving.answer == FrameType::kWriteAnswer;
  const std::uint64_t bytes = writes ? limit_.writes->bytes : limit_.bytes;
  const std::uint64_t requests = writes ? limit_.writes->requests : limit_.requests;
  Out& out = outOf(serving.answer);
  const bool fits = out.requests == 0 || (out.requests < requests && out.bytes + cost <= bytes);
  if (!fits) {
    return Error{ErrorCode::kProtocolError, "the other side asked for more than its credit"};
  }
  serving_.emplace(requestId, std::move(serving));
  out.bytes += cost;
  ++out.requests;
  ++account_->requests;
  return {};
}

template <class Request>
Result<bool> ServerConnection::onRequest(const Frame& frame) {
  Result<Request> request = decodeBody<Request>(frame.body);
  if (!request.ok()) return request.error();
  RequestClass requestClass = RequestClass::kDemand;
  if constexpr (requires(const Request& classed) { classed.requestClass; })
    requestClass = request->requestClass;
  Interest interest;
  if constexpr (requires(const Request& timed) { timed.timeoutMs; })
    interest = Interest(Clock::now() + std::chrono::milliseconds(request->timeoutMs), requestClass);
  const std::uint64_t requestId = frame.header.requestId;
  Serving serving{answerTo(Request::kType), costOf(*request), requestClass, interest};
  const Status admitted = admit(requestId, std::move(serving));
  if (!admitted.ok()) return admitted.error();
  Share share;
  if (requests_ != nullptr) {
    const std::uint64_t memory =
        Request::kType == FrameType::kControlRequest ? kControlRequestMemory : kReadRequestMemory;
    share = requests_->take(with_.client->client, memory);
    if (!share) {
      refuse(requestId, answerTo(Request::kType), memory);
      return false;
    }
  }
  gate_.spawn(serve(self(), requestId, std::move(*request), std::move(interest), std::move(share)));
  return false;
}

void ServerConnection::refuse(std::uint64_t requestId, FrameType answer, std::uint64_t memory) {
  const ClientShares::Bound bound = requests_->bound(with_.client->client, memory);
  const Error reason{ErrorCode::kUnavailable,
                     holderOf(bound) + " too many requests under way at this agent"};
  if (answer == FrameType::kReadAnswer)
    return queue(requestId, errorFrame<ReadAnswer>(requestId, reason));
  if (answer == FrameType::kWriteAnswer)
    return queue(requestId, errorFrame<WriteAnswer>(requestId, reason));
  queue(requestId, errorFrame<ControlAnswer>(requestId, reason));
}

Status ServerConnection::allow(FrameType type) const {
  if (!with_.client) return {};
  constexpr std::array kFramesOfClients{FrameType::kReadRequest, FrameType::kControlRequest,
                                        FrameType::kWriteRequest, FrameType::kWriteData,
                                        FrameType::kCancel};
  if (std::ranges::find(kFramesOfClients, type) == kFramesOfClients.end())
    return Error{ErrorCode::kProtocolError,
                 "clients may only read, write and send control messages"};
  if (with_.client->expired())
    return Error{ErrorCode::kUnauthenticated, "the client's token has expired; make a new one"};
  return {};
}

Result<bool> ServerConnection::onFrame(const Frame& frame) {
  const Status allowed = allow(frame.header.type);
  if (!allowed.ok()) return allowed.error();
  switch (frame.header.type) {
    case FrameType::kReadRequest:
      return onRequest<ReadRequest>(frame);
    case FrameType::kManifestRequest:
      return onRequest<ManifestRequest>(frame);
    case FrameType::kControlRequest:
      return onRequest<ControlRequest>(frame);
    case FrameType::kWriteRequest:
      if (!has(with_.features, WireFeature::kWrites))
        return Error{ErrorCode::kProtocolError, "the other side writes, which was not agreed on"};
      return onRequest<WriteRequest>(frame);
    case FrameType::kWriteData:
      return onWriteData(frame);
    case FrameType::kCancel:
      cancel(frame.header.requestId);
      return false;
    default:
      return Error{ErrorCode::kProtocolError, std::string("the other side sent a ") +
                                                  frameName(frame.header.type) +
                                                  " frame, which only the acceptor may"};
  }
}

void ServerConnection::cancel(std::uint64_t requestId) {
  const auto found = serving_.find(requestId);
  if (found == serving_.end()) {
    // The request was answered already: answer and cancel crossed, or some parts of a read are not
    // sent yet.
    queue_.withdraw(requestId, errorFrame<ReadAnswer>(requestId, kWithdrawn));
    return;
  }
  found->second.cancelled = true;
  found->second.interest.end();
  if (const auto write = incoming_.find(requestId); write != incoming_.end())
    end(*write->second, kWithdrawn);
  // The answer has not begun: the rest of it need not be sent.
  queue_.withdraw(requestId, found->second.answer == FrameType::kReadAnswer
                                 ? errorFrame<ReadAnswer>(requestId, kWithdrawn)
                                 : errorFrame<ManifestAnswer>(requestId, kWithdrawn));
}

Task<void> ServerConnection::serve(Self self, std::uint64_t requestId, ReadRequest request,
                                   Interest interest, Share) {
  Task<Result<BytesAnswer>> reading =
      self->with_.client ? self->handler_.onClientRead(self->with_.client, request.key,
                                                       request.offset, request.length, interest)
                         : self->handler_.onRead(self->with_.node, request.key, request.offset,
                                                 request.length, interest);
  Result<BytesAnswer> result = co_await reading;
  co_await self->reactor_.enter();
  self->answerData<ReadAnswer>(requestId, std::move(result), request.length, request.length);
}

Task<void> ServerConnection::serve(Self self, std::uint64_t requestId, ManifestRequest request,
                                   Interest, Share) {
  Result<BytesAnswer> result = co_await self->handler_.onReadManifest(
      self->with_.node, request.digest, request.offset, request.length);
  co_await self->reactor_.enter();
  self->answerData<ManifestAnswer>(requestId, std::move(result), 0, request.length);
}

Task<void> ServerConnection::serve(Self self, std::uint64_t requestId, ControlRequest request,
                                   Interest interest, Share share) {
  ControlMessage message{request.type, std::move(request.body)};
  Result<ControlMessage> result = message;
  if (message.type == kRdmaConnect) {
    result = self->connectRdma(message);
  } else {
    Task<Result<ControlMessage>> handling =
        self->with_.client ? self->handler_.onClientControl(self->with_.client, std::move(message),
                                                            std::move(interest))
                           : self->handler_.onControl(self->with_.node, std::move(message));
    result = co_await handling;
    co_await self->reactor_.enter();
  }
  self->answerControl(requestId, std::move(result), std::move(share));
}

void ServerConnection::answerControl(std::uint64_t requestId, Result<ControlMessage> result,
                                     Share share) {
  const auto failWith = [&](const Error& error) {
    queue(requestId, errorFrame<ControlAnswer>(requestId, error), share);
  };
  if (!result.ok()) return failWith(result.error());
  if (result->body.size() > kMaxControlBytes)
    return failWith({ErrorCode::kInternal, "the answer is longer than a control frame may be"});
  if (share && result->body.size() > kControlRequestMemory) {
    const ClientIdentity& client = with_.client->client;
    const std::uint64_t bytes = result->body.size();
    share.reset();  // in its place comes one of the answer's size
    share = requests_->take(client, bytes);
    if (!share) return refuse(requestId, FrameType::kControlAnswer, bytes);
  }
  ControlAnswer answer;
  answer.type = result->type;
  answer.body = std::move(result->body);
  queue(requestId, encodeFrame(answer, requestId), std::move(share));
}

Result<ControlMessage> ServerConnection::connectRdma(const ControlMessage& request) {
  if (rdma_.empty()) return Error{ErrorCode::kUnsupported, "this agent uses no RDMA"};
  // A client's token judges its requests one by one, and an endpoint's requests carry no token.
  if (with_.client)
    return Error{ErrorCode::kUnsupported, "clients are answered over their connection alone"};
  if (!alive()) return failure();
  const std::size_t addressBytes = std::min(kEndpointAddressBytes, request.body.size());
  ByteReader rest(std::span(request.body).subspan(addressBytes));
  const std::uint32_t port = request.body.size() == kEndpointAddressBytes ? 0 : rest.u32();
  const Result<EndpointAddress> theirs =
      decodeEndpointAddress(std::span(request.body).first(addressBytes));
  if (!theirs.ok()) return theirs.error();
  if (!rest.finished() || port >= kRdmaPorts)
    return Error{ErrorCode::kProtocolError, "the other side's RDMA port has an impossible number"};
  if (const auto older = responders_.find(port); older != responders_.end())
    older->second->fail({ErrorCode::kCancelled, "the asker has a newer endpoint"});
  const std::uint32_t ours = port % static_cast<std::uint32_t>(rdma_.size());
  auto made = RdmaResponder::create({.reactor = reactor_,
                                     .gate = gate_,
                                     .shard = *rdma_[ours],
                                     .port = ours,
                                     .handler = handler_,
                                     .node = with_.node,
                                     .account = account_},
                                    *theirs);
  if (!made.ok()) return made.error();
  responders_[port] = *made;
  gate_.spawn(keep(self(), port, *made));
  return ControlMessage{kRdmaConnect, encode((*made)->address())};
}

Task<void> ServerConnection::keep(Self self, std::uint32_t port,
                                  std::shared_ptr<RdmaResponder> responder) {
  co_await responder->awaitEnd();
  const auto found = self->responders_.find(port);
  if (found != self->responders_.end() && found->second == responder)
    self->responders_.erase(found);
}

namespace {

// The frames of an answer, each with so much of its payload.
template <class Answer>
std::deque<LentParts::Part> slicesOf(const Answer& whole, std::uint64_t requestId,
                                     std::uint32_t sliceBytes) {
  std::deque<LentParts::Part> slices;
  if (whole.payloadLength <= sliceBytes) {
    slices.push_back({encodeFrame(whole, requestId), whole.payloadLength});
    return slices;
  }
  for (std::uint32_t at = 0; at < whole.payloadLength; at += sliceBytes) {
    const std::uint32_t size = std::min<std::uint32_t>(sliceBytes, whole.payloadLength - at);
    const auto first = whole.blockChecksums.begin() + at / kBlockBytes;
    const bool last = at + size == whole.payloadLength;
    const Answer part{
        .payloadLength = size,
        .blockChecksums = {first, first + static_cast<std::ptrdiff_t>(blocksOf(size))},
        .part = AnswerPart{at, last}};
    slices.push_back({encodeFrame(part, requestId), size});
  }
  return slices;
}

}  // namespace

template <class Answer>
void ServerConnection::answerData(std::uint64_t requestId, Result<BytesAnswer> result,
                                  std::uint32_t shortest, std::uint32_t longest) {
  const auto found = serving_.find(requestId);
  if (found == serving_.end()) return;  // the connection has ended
  const auto failWith = [&](const Error& error) {
    queue(requestId, errorFrame<Answer>(requestId, error));
  };
  if (found->second.cancelled) return failWith(kWithdrawn);
  if (!result.ok()) return failWith(result.error());
  const std::size_t size = result->bytes.size();
  if (size < shortest || size > longest || result->blockChecksums.size() != blocksOf(size)) {
    return failWith({ErrorCode::kInternal,
                     "the handler answered with another number of bytes or checksums than asked"});
  }
  Answer answer;
  answer.payloadLength = static_cast<std::uint32_t>(size);
  answer.blockChecksums = std::move(result->blockChecksums);
  if (!alive()) return;
  SendQueue::Item item{.frame = {},
                       .payload = result->bytes,
                       .keep = std::move(result->keep),
                       .requestId = requestId,
                       .requestClass = found->second.requestClass};
  // Cuts an answer to a read into slices where the other side takes them.
  const bool sliced = Answer::kType == FrameType::kReadAnswer && size > kSliceToSendBytes &&
                      has(with_.features, WireFeature::kPartialAnswers);
  std::deque<LentParts::Part> slices =
      slicesOf(answer, requestId, sliced ? sliceBytes() : answer.payloadLength);
  if (result->lent) {
    item.lent = std::move(result->lent);
    item.parts = LentParts(std::move(slices));
    item.otherwise = errorFrame<Answer>(requestId, kGone);
  } else if (slices.size() > 1) {
    item.slices = std::move(slices);
  } else {
    item.frame = std::move(slices.front().frame);
  }
  queue_.push(std::move(item));
  // A program that makes small reads will ask again at once.
  if (size <= kSmallTransferBytes && serving_.size() == 1) reactor_.expectSoon();
}

void ServerConnection::queue(std::uint64_t requestId, std::vector<std::byte> frame, Share share) {
  if (alive())
    queue_.push({.frame = std::move(frame), .keep = std::move(share), .requestId = requestId});
}

// From the first byte of an answer on the asker may count the request as answered and ask again.
void ServerConnection::onSending(const SendQueue::Item& item) {
  const auto found = serving_.find(item.requestId);
  if (found == serving_.end()) return;
  Out& out = outOf(found->second.answer);
  out.bytes -= found->second.cost;
  --out.requests;
  serving_.erase(found);
}

void ServerConnection::onEnd() {
  // Only a side that has proved the secret may read, and this connection is the proof.
  for (const auto& [port, responder] : responders_) responder->fail(failure());
  for (const auto& [requestId, serving] : serving_) serving.interest.end();
  serving_.clear();
  for (const auto& [requestId, write] : incoming_) end(*write, failure());
}

}  // namespace hearth
