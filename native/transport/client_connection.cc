#include "transport/client_connection.h"

#include <algorithm>

#include "transport/limits.h"
#include "transport/request_terms.h"

namespace hearth {
namespace {

Error lateError(const char* what) { return {ErrorCode::kDeadlineExceeded, what}; }

}  // namespace

ClientConnection::ClientConnection(Reactor& reactor, Gate& gate, Channel channel,
                                   Clock::duration probeInterval, PeerAddress address,
                                   std::uint64_t features)
    : Connection(reactor, gate, std::move(channel), probeInterval),
      address_(std::move(address)),
      features_(features),
      credit_(reactor),
      writeCredit_(reactor),
      liveness_(reactor) {}

void ClientConnection::post(std::vector<std::unique_ptr<RailWork>> batch) {
  for (std::unique_ptr<RailWork>& work : batch)
    gate_.spawn(carry(shared_from_this(), std::move(work)));
}

ClientConnection::Request ClientConnection::requestOf(const RailTransfer& transfer) {
  const auto length = static_cast<std::uint32_t>(transfer.memory.size());
  if (transfer.direction == Direction::kRead)
    return ReadRequest{transfer.key, transfer.offset, length, 0, transfer.requestClass, {}};
  return WriteRequest{transfer.key,          transfer.offset,     length,         0,
                      transfer.requestClass, transfer.generation, transfer.target};
}

Task<void> ClientConnection::carry(std::shared_ptr<Connection> self,
                                   std::unique_ptr<RailWork> work) {
  auto& connection = static_cast<ClientConnection&>(*self);
  const RailTransfer& transfer = work->transfer();
  const bool writes = transfer.direction == Direction::kWrite;
  if (writes && !has(connection.features_, WireFeature::kWrites)) {
    work->settle({Error{ErrorCode::kUnsupported, "the other side takes no writes"}, false});
    co_return;
  }
  if (!transfer.memory.isHost()) {
    work->settle({Error{ErrorCode::kUnsupported, "TCP reaches memory of processors only"}, false});
    co_return;
  }
  Exchange exchange{.done = Event(connection.reactor_),
                    .request = requestOf(transfer),
                    .memory = transfer.memory,
                    .checksums = work->checksums()};
  work->onCancel([&exchange] { cancel(exchange); });
  co_await connection.run(exchange, transfer.timeouts);
  work->onCancel({});
  work->settle(std::move(exchange.outcome));
}

// Nothing needs to be woken while giveUp() already waits for the request's end.
void ClientConnection::cancel(Exchange& exchange) {
  exchange.cancelled = true;
  if (exchange.abandoned || exchange.done.isSet()) return;
  exchange.done.set();
  exchange.done.reset();
}

Task<Outcome> ClientConnection::readManifest(Sha256Digest digest, std::uint64_t offset,
                                             std::span<std::byte> into, std::size_t& received,
                                             RequestTimeouts timeouts) {
  const auto length = static_cast<std::uint32_t>(into.size());
  Exchange exchange{.done = Event(reactor_),
                    .request = ManifestRequest{digest, offset, length},
                    .memory = MemorySlice::of(into)};
  co_await run(exchange, timeouts);
  received = exchange.received;
  co_return exchange.outcome;
}

Task<Outcome> ClientConnection::call(ControlMessage& message, RequestTimeouts timeouts) {
  const bool volumes = message.type >= kVolumeControlFirst && message.type <= kVolumeControlLast;
  if (volumes && !has(features_, WireFeature::kVolumes)) {
    co_return Outcome{
        Error{ErrorCode::kUnsupported, account_->node + " runs a release of Hearth without "
                                                        "volumes; upgrade it"},
        true};
  }
  Exchange exchange{.done = Event(reactor_), .request = ControlRequest{message.type, message.body}};
  co_await run(exchange, timeouts);
  if (exchange.outcome.status.ok()) message = std::move(exchange.message);
  co_return exchange.outcome;
}

Task<void> ClientConnection::run(Exchange& exchange, RequestTimeouts timeouts) {
  // Keeps the connection: the caller's own reference may go while we wait.
  const std::shared_ptr<Connection> self = shared_from_this();
  if (!alive()) {
    exchange.outcome.status = failure();
    co_return;
  }
  if (silentFor(timeouts.silence)) {
    exchange.outcome.status = PeerLiveness::error(account_->node, timeouts.silence);
    co_return;
  }
  const auto terms = [](const auto& request) {
    return std::pair(costOf(request), answerTo(request.kType));
  };
  const auto [cost, answer] = std::visit(terms, exchange.request);
  load_ += cost;
  // Requests that hold the credit find a silence out themselves.
  const auto onlyWhile = [&] { return !exchange.cancelled && !silentFor(timeouts.silence); };
  const Clock::duration every = std::min<Clock::duration>(timeouts.silence / 4, kReleaseGrace);
  CreditGate& credit = creditOf(answer);
  const bool granted = co_await credit.acquire(cost, timeouts.deadline, every, onlyWhile);
  if (!alive()) {
    exchange.outcome.status = failure();
  } else if (!granted) {
    exchange.outcome.status =
        silentFor(timeouts.silence)
            ? PeerLiveness::error(account_->node, timeouts.silence)
            : lateError("the other side gave no room for the request in time");
  } else if (exchange.cancelled) {
    credit.release(cost);
  } else {
    submit(exchange, timeouts.deadline);
    const std::uint64_t requestId = lastId_;
    const bool answered = co_await awaitAnswer(exchange, timeouts);
    if (!answered) {
      co_await giveUp(exchange, requestId, timeouts);
    }
  }
  load_ -= cost;
}

Task<bool> ClientConnection::awaitAnswer(Exchange& exchange, RequestTimeouts timeouts) {
  const bool forEver = timeouts.silence == Clock::duration::max();
  while (!exchange.done.isSet()) {
    const Clock::time_point now = Clock::now();
    if (exchange.cancelled || now >= timeouts.deadline || silentFor(timeouts.silence))
      co_return false;
    if (forEver) {
      co_await exchange.done.waitUntil(timeouts.deadline);
      continue;
    }
    if (liveness_.wantsProbe(timeouts.silence))
      queue_.push({.frame = encodeEmptyFrame(FrameType::kPing, 0)});
    co_await exchange.done.waitUntil(std::min(timeouts.deadline, now + timeouts.silence / 4));
  }
  co_return true;
}

bool ClientConnection::paused() {
  if (!alive() || (sent_.empty() && !payload_.active)) return paused_ = false;
  const bool silent = silentFor(kHedgeAfter);
  if (!silent && liveness_.wantsProbe(kHedgeAfter))
    queue_.push({.frame = encodeEmptyFrame(FrameType::kPing, 0)});
  if (silent && !paused_) ++account_->paused;
  return paused_ = silent;
}

std::uint64_t ClientConnection::progress() {
  const TcpProgress now = tcp();
  // Counts parts only: a stopped peer's kernel acknowledges requests and probes that nobody reads,
  // but its window for parts is soon full.
  const std::uint64_t fresh =
      now.acknowledged > acknowledged_ ? now.acknowledged - acknowledged_ : 0;
  const std::uint64_t parts = std::min(fresh, partsOut_);
  partsOut_ -= parts;
  taken_ += parts;
  acknowledged_ = std::max(acknowledged_, now.acknowledged);
  return now.received + taken_;
}

void ClientConnection::submit(Exchange& exchange, Clock::time_point deadline) {
  const std::uint64_t requestId = ++lastId_;
  // All bytes that came have been received, as nothing was asked for; so the kernel need not be
  // asked.
  if (sent_.empty() && !payload_.active)
    liveness_.start(partsOut_ == 0 ? reader_.received() + taken_ : progress());
  std::visit(
      [&](auto& request) {
        if constexpr (requires { request.timeoutMs; }) request.timeoutMs = timeoutMsUntil(deadline);
        const auto length = static_cast<std::uint32_t>(exchange.memory.size());
        sent_.emplace(requestId, Sent{&exchange, answerTo(request.kType), costOf(request), length});
        queue_.push({.frame = encodeFrame(request, requestId)});
      },
      exchange.request);
  ++account_->requests;
}

Task<void> ClientConnection::giveUp(Exchange& exchange, std::uint64_t requestId,
                                    RequestTimeouts timeouts) {
  const bool silent = !exchange.cancelled && Clock::now() < timeouts.deadline;
  const Error silence = PeerLiveness::error(account_->node, timeouts.silence);
  if (!exchange.answered) {
    exchange.outcome = {silent ? silence : lateError("the other side did not answer in time"),
                        false};
  }
  const auto found = sent_.find(requestId);
  const bool waits = found != sent_.end();
  if (waits) found->second.exchange = nullptr;
  if (!exchange.moving) {
    if (waits) sendCancel(requestId);
    co_return;
  }
  // The part that moves now comes to its end; later parts need not be sent.
  if (waits || !payload_.last) sendCancel(requestId);
  // The caller's memory is in use until the end of this piece, or of this part of a write; a peer
  // that has stalled inside it costs the connection.
  exchange.abandoned = true;
  const bool released = co_await exchange.done.waitUntil(Clock::now() + kReleaseGrace);
  if (released || exchange.done.isSet()) co_return;
  // Other requests that wait for this silent peer go elsewhere, too.
  fail(silent
           ? silence
           : Error{ErrorCode::kUnavailable, "the other side stalled in the middle of a payload"});
  co_await exchange.done.wait();
}

void ClientConnection::sendCancel(std::uint64_t requestId) {
  const std::vector<std::byte> frame = encodeEmptyFrame(FrameType::kCancel, requestId);
  // Takes the place of a part of a write that has not begun.
  if (!queue_.withdraw(requestId, frame)) queue_.push({.frame = frame});
}

void ClientConnection::settle(Sent& sent, Outcome outcome) {
  Exchange* const exchange = std::exchange(sent.exchange, nullptr);
  if (exchange == nullptr) return;
  if (!exchange->abandoned) exchange->outcome = std::move(outcome);
  exchange->answered = true;
  // A part of the write is still being sent: onSent() ends it.
  if (sent.answer == FrameType::kWriteAnswer && exchange->moving) return;
  exchange->moving = false;
  exchange->done.set();
}

Result<bool> ClientConnection::onFrame(const Frame& frame) {
  switch (frame.header.type) {
    case FrameType::kCredit: {
      const Result<Credit> credit = decodeBody<Credit>(frame.body);
      if (!credit.ok()) return credit.error();
      credit_.setLimit(credit->bytes, credit->requests);
      if (credit->writes) writeCredit_.setLimit(credit->writes->bytes, credit->writes->requests);
      authenticated_ = true;
      return false;
    }
    case FrameType::kReadAnswer:
    case FrameType::kManifestAnswer:
    case FrameType::kControlAnswer:
    case FrameType::kWriteAnswer:
      break;
    case FrameType::kWriteReady:
      return onWriteReady(frame.header.requestId);
    default:
      return Error{ErrorCode::kProtocolError, std::string("the other side sent a ") +
                                                  frameName(frame.header.type) +
                                                  " frame, which only the dialler may"};
  }
  const auto found = sent_.find(frame.header.requestId);
  if (found == sent_.end() || found->second.answer != frame.header.type) {
    return Error{ErrorCode::kProtocolError, "the other side answered what was not asked"};
  }
  // Not in sent_ while its payload comes: only the reader may end it then.
  const Sent sent = found->second;
  sent_.erase(found);
  if (sent.answer == FrameType::kReadAnswer) return onData<ReadAnswer>(frame, sent);
  if (sent.answer == FrameType::kManifestAnswer) return onData<ManifestAnswer>(frame, sent);
  if (sent.answer == FrameType::kWriteAnswer) return onWriteAnswer(frame, sent);
  return onControl(frame, sent);
}

template <class Answer>
Result<bool> ClientConnection::onData(const Frame& frame, Sent sent) {
  const auto refuse = [&](Error error) {
    settle(sent, {error, false});
    return error;
  };
  Result<Answer> answer = decodeBody<Answer>(frame.body);
  if (!answer.ok()) return refuse(answer.error());
  const bool last = !answer->part || answer->part->last;
  if (last) credit_.release(sent.cost);
  if (answer->code != ErrorCode::kOk) {
    settle(sent, {Error{answer->code, std::move(answer->sentence)}, true});
    return false;
  }
  const bool whole = Answer::kType == FrameType::kReadAnswer && !answer->part && sent.blocks == 0;
  const bool fits =
      whole ? answer->payloadLength == sent.length : answer->payloadLength <= sent.length;
  if (!fits || (sent.blocks != 0 && !answer->part)) {
    return refuse({ErrorCode::kProtocolError,
                   "the other side answered with another number of bytes than was asked for"});
  }
  if (answer->part) {
    const Status placed = placePart(sent, *answer->part, answer->payloadLength);
    if (!placed.ok()) return refuse(placed.error());
  }
  payload_ = {.requestId = frame.header.requestId,
              .sent = sent,
              .offset = answer->part ? answer->part->offset : 0,
              .length = answer->payloadLength,
              .last = last,
              .checksums = std::move(answer->blockChecksums),
              .active = true};
  if (sent.exchange != nullptr) sent.exchange->moving = true;
  return true;
}

Status ClientConnection::placePart(Sent& sent, const AnswerPart& part, std::uint32_t length) const {
  const Error malformed{ErrorCode::kProtocolError,
                        "the other side answered in parts that do not fit what was asked for"};
  if (!has(features_, WireFeature::kPartialAnswers)) return malformed;
  const std::uint64_t end = std::uint64_t{part.offset} + length;
  if (length == 0 || end > sent.length) return malformed;
  if (end % kBlockBytes != 0 && end != sent.length) return malformed;
  const std::uint64_t blocks = blockMask(part.offset, length);
  if ((sent.blocks & blocks) != 0) return malformed;
  sent.blocks |= blocks;
  if (part.last && sent.blocks != blockMask(0, sent.length)) return malformed;
  return {};
}

Result<bool> ClientConnection::onControl(const Frame& frame, Sent sent) {
  credit_.release(sent.cost);
  Result<ControlAnswer> answer = decodeBody<ControlAnswer>(frame.body);
  if (!answer.ok()) {
    settle(sent, {answer.error(), false});
    return answer.error();
  }
  if (answer->code != ErrorCode::kOk) {
    settle(sent, {Error{answer->code, std::move(answer->sentence)}, true});
  } else if (sent.exchange != nullptr) {
    sent.exchange->message = {answer->type, std::move(answer->body)};
    settle(sent, {Status(), true});
  }
  return false;
}

Task<Status> ClientConnection::onPayload() {
  Payload& payload = payload_;
  std::size_t done = 0;
  Status intact;
  while (done < payload.length) {
    Exchange* const exchange = payload.sent.exchange;
    if (exchange == nullptr || exchange->abandoned || !intact.ok()) {
      settle(payload.sent, {intact, false});
      const Status skipped = co_await reader_.skip(payload.length - done);
      if (!skipped.ok()) co_return skipped;
      break;
    }
    // One call receives a slice; only a peer that sends no slices sends more at once.
    const std::size_t most = payload.length <= kFastSliceBytes ? payload.length : kPieceBytes;
    const std::size_t size = std::min(most, payload.length - done);
    const auto checksums =
        std::span<const std::uint32_t>(payload.checksums).subspan(done / kBlockBytes);
    Task<Status> receiving =
        receiveBlocks(exchange->memory, payload.offset + done, size, checksums, intact);
    const Status received = co_await receiving;
    if (!received.ok()) co_return received;
    if (!intact.ok() && !payload.last) sendCancel(payload.requestId);
    done += size;
  }
  endPayload(std::move(intact));
  co_return Status();
}

void ClientConnection::endPayload(Status intact) {
  Payload& payload = payload_;
  Exchange* const exchange = payload.sent.exchange;
  if (exchange != nullptr) {
    exchange->received = payload.length;
    if (!exchange->checksums.empty()) {
      std::copy(payload.checksums.begin(), payload.checksums.end(),
                exchange->checksums.begin() + payload.offset / kBlockBytes);
    }
  }
  if (payload.last || !intact.ok() || (exchange != nullptr && exchange->abandoned)) {
    const bool answered = intact.ok();
    settle(payload.sent, {std::move(intact), answered});
  } else if (exchange != nullptr) {
    exchange->moving = false;
  }
  // More parts follow. If the connection has ended meanwhile, the end of the reader settles the
  // request.
  if (!payload.last && alive()) sent_.emplace(payload.requestId, payload.sent);
  payload.active = !payload.last && !alive();
}

void ClientConnection::onEnd() {
  credit_.close();
  writeCredit_.close();
  for (auto& [requestId, sent] : sent_) settle(sent, {failure(), false});
  sent_.clear();
}

void ClientConnection::onReaderEnd() {
  if (payload_.active) settle(payload_.sent, {failure(), false});
}

}  // namespace hearth
