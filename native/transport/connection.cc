#include "transport/connection.h"

#include <utility>

#include "base/crc32c.h"
#include "memory/guarded_memory.h"
#include "transport/limits.h"

namespace hearth {
namespace {

Error protocolError(const std::string& what) { return {ErrorCode::kProtocolError, what}; }

}  // namespace

Connection::Connection(Reactor& reactor, Gate& gate, Channel channel, Clock::duration probeInterval)
    : reactor_(reactor),
      gate_(gate),
      reader_(std::move(channel.reader)),
      queue_(
          reactor, [this](const SendQueue::Item& item) { onSending(item); },
          [this](const SendQueue::Item& item) { onSent(item); }),
      account_(std::move(channel.account)),
      socket_(std::move(channel.socket)),
      probeInterval_(probeInterval),
      probeTimer_(reactor) {}

void Connection::start() {
  progress_ = tcpProgress(socket_.fd());
  probeTimer_.start(Clock::now() + probeInterval_, [this] { probe(); });
  coroutines_ = 2;
  gate_.spawn(sendFrames(shared_from_this()));
  gate_.spawn(readFrames(shared_from_this()));
}

void Connection::fail(Error reason) {
  if (!alive_) return;
  alive_ = false;
  failure_ = std::move(reason);
  account_->error = failure_.message;
  probeTimer_.cancel();
  queue_.close();
  socket_.shutDown();
  onEnd();
}

void Connection::part(Error reason) {
  // Between frames only.
  if (alive_ && queue_.idle())
    sendAtOnce(socket_.fd(), encodeFrame(Goodbye{reason.code, reason.message}));
  fail(std::move(reason));
}

Task<void> Connection::readFrames(std::shared_ptr<Connection> self) {
  while (self->alive_) {
    std::optional<Result<Frame>> frame = self->reader_.buffered();
    if (!frame) {
      const Status filled = co_await self->reader_.fill();
      self->count();
      if (!filled.ok()) self->fail(filled.error());
      continue;
    }
    if (!frame->ok()) {
      self->fail(frame->error());
      break;
    }
    const Result<bool> taken = self->take(frame->value());
    if (!taken.ok()) {
      self->fail(taken.error());
    } else if (taken.value()) {
      const Status received = co_await self->onPayload();
      self->count();
      if (!received.ok()) self->fail(received.error());
    }
  }
  self->onReaderEnd();
  self->coroutineEnded();
}

Task<void> Connection::sendFrames(std::shared_ptr<Connection> self) {
  const Status sent = co_await self->queue_.run(self->socket_.fd());
  self->count();
  if (!sent.ok()) self->fail(sent.error());
  self->coroutineEnded();
}

// Closes the descriptor when nothing can be pending on it, not when the last handler lets go.
void Connection::coroutineEnded() {
  if (--coroutines_ == 0) socket_.reset();
}

Result<bool> Connection::take(const Frame& frame) {
  if (frame.header.unknown) return false;  // of a later release, without meaning for us
  switch (frame.header.type) {
    case FrameType::kPing:
      // A peer that asks without end and never reads must not pile up answers.
      if (queue_.size() > kMaxQueuedFrames) {
        return protocolError("the other side floods this agent with pings and does not read");
      }
      queue_.push({.frame = encodeEmptyFrame(FrameType::kPong, frame.header.requestId)});
      return false;
    case FrameType::kPong:
      return false;  // its arrival is its whole meaning
    case FrameType::kGoodbye: {
      const Result<Goodbye> goodbye = decodeBody<Goodbye>(frame.body);
      if (!goodbye.ok()) return goodbye.error();
      return Error{ErrorCode::kUnavailable, "the other side said goodbye: " + goodbye->sentence};
    }
    default:
      return onFrame(frame);
  }
}

Task<Status> Connection::receiveBlocks(const MemoryVector& memory, std::uint64_t offset,
                                       std::size_t size, std::span<const std::uint32_t> checksums,
                                       Status& intact) {
  const Status received = co_await reader_.receive(memory, offset, size);
  if (received.code() == ErrorCode::kInvalidArgument) {
    intact = received;
    co_return Status();
  }
  if (!received.ok()) co_return received;
  for (std::size_t at = 0; at < size; at += kBlockBytes) {
    const auto checksum =
        checksumIfThere(memory, offset + at, std::min<std::size_t>(kBlockBytes, size - at));
    if (!checksum) {
      intact = FrameReader::memoryGone();
      break;
    }
    if (*checksum == checksums[at / kBlockBytes]) continue;
    intact = Error{ErrorCode::kCorrupt, "bytes from " + account_->node +
                                            " do not match their checksum; the network or a "
                                            "memory between is faulty"};
    account_->error = intact.error().message;
    break;
  }
  co_return Status();
}

std::uint32_t Connection::blockChecksum(const MemoryVector& memory, std::uint64_t offset,
                                        std::size_t size) {
  std::uint32_t checksum = 0;
  forEachPiece(memory, offset, size,
               [&](std::span<const std::byte> piece) { checksum = crc32c(piece, checksum); });
  return checksum;
}

std::uint32_t Connection::sliceBytes() {
  const bool fast = tcp().bytesPerSecond >= kFastBytesPerSecond;
  const std::uint32_t bytes = fast ? kFastSliceBytes : kSliceToSendBytes;
  if (std::exchange(sliceBytes_, bytes) != bytes) boundUnsent(socket_.fd(), bytes);
  return bytes;
}

void Connection::probe() {
  const TcpProgress now = tcpProgress(socket_.fd());
  const bool sending = !queue_.idle() || now.unsent;
  const bool taken = now.acknowledged != progress_.acknowledged;
  // The other side's kernel acknowledges bytes that nobody reads there, but only until its buffer
  // is full.
  const bool moved = now.received != progress_.received || (sending && taken);
  // A peer that still sends, but takes nothing, lets its answers wait for ever.
  const bool stuck = now.unsent && !taken;
  progress_ = now;
  silentProbes_ = moved ? 0 : silentProbes_ + 1;
  stuckProbes_ = stuck ? stuckProbes_ + 1 : 0;
  const auto lasting = [&](int probes) {
    return std::to_string(
               std::chrono::duration_cast<std::chrono::milliseconds>(probeInterval_ * probes)
                   .count()) +
           " ms";
  };
  if (silentProbes_ > kMissedProbes) {
    return fail({ErrorCode::kUnavailable,
                 "the other side has given no sign of life for " + lasting(silentProbes_)});
  }
  if (stuckProbes_ > kMissedProbes) {
    return fail(
        {ErrorCode::kUnavailable,
         "the other side has taken nothing of what it is sent for " + lasting(stuckProbes_)});
  }
  if (pace_ && pace_->isTooSlow(Clock::now(), now.acknowledged, now.unsent)) {
    return fail({ErrorCode::kUnavailable, "the other side takes its answers too slowly"});
  }
  if (silentProbes_ > 0) queue_.push({.frame = encodeEmptyFrame(FrameType::kPing, 0)});
  count();
  probeTimer_.start(Clock::now() + probeInterval_, [this] { probe(); });
}

void Connection::count() {
  account_->bytesReceived += reader_.received() - countedIn_;
  account_->bytesSent += queue_.sent() - countedOut_;
  countedIn_ = reader_.received();
  countedOut_ = queue_.sent();
}

}  // namespace hearth
