// Writes on the answering side. From the request to the answer one coroutine has the write's place,
// the handler's memory and the state of the transfer; the reader fills the memory meanwhile. The
// memory is there before a byte is asked for, so the reader never waits for any.
#include <algorithm>

#include "transport/limits.h"
#include "transport/server_connection.h"

namespace hearth {

Task<void> ServerConnection::serve(Self self, std::uint64_t requestId, WriteRequest request,
                                   Interest interest, Share) {
  const Status status = co_await self->receiveWrite(requestId, std::move(request), interest);
  WriteAnswer answer;
  if (!status.ok()) answer = {status.code(), status.error().message};
  self->queue(requestId, encodeFrame(answer, requestId));
}

Task<Status> ServerConnection::receiveWrite(std::uint64_t requestId, WriteRequest request,
                                            Interest interest) {
  const Clock::time_point until =
      Clock::now() +
      std::min<Clock::duration>(std::chrono::milliseconds(request.timeoutMs), kLongestWrite);
  Incoming write{.ended = Event(reactor_), .memory = nullptr};
  Task<Result<std::unique_ptr<WriteOrder::Place>>> entering =
      order_.enter(with_.node, request, interest, [this, &write, interest](bool pressing) {
        interest.end();
        abandon(write, WriteOrder::lost(), pressing);
      });
  const Result<std::unique_ptr<WriteOrder::Place>> place = co_await entering;
  if (!place.ok()) co_return place.error();

  const std::uint32_t length = request.length;
  Task<Result<std::unique_ptr<WriteSink>>> asking =
      with_.client ? handler_.onClientWrite(with_.client, std::move(request), interest)
                   : handler_.onWrite(with_.node, std::move(request), interest);
  const Result<std::unique_ptr<WriteSink>> sink = co_await asking;
  co_await reactor_.enter();
  if (!sink.ok()) co_return sink.error();
  write.memory = &(*sink)->memory();
  if (write.memory->size() != length)
    co_return Error{ErrorCode::kInternal, "the handler gave another amount of memory than asked"};
  if (!write.memory->isHost())
    co_return Error{ErrorCode::kUnsupported, "TCP reaches memory of processors only"};
  if (write.over) co_return write.status;
  const auto found = serving_.find(requestId);
  if (found == serving_.end() || found->second.cancelled)
    co_return Error{ErrorCode::kCancelled, "the asker no longer wants it"};

  found->second.ready = true;
  incoming_.emplace(requestId, &write);
  queue_.push({.frame = encodeEmptyFrame(FrameType::kWriteReady, requestId)});
  co_await awaitData(write, until);
  incoming_.erase(requestId);
  if (!write.status.ok()) co_return write.status;
  Status landed = co_await (*sink)->landed(std::move(write.checksums));
  co_await reactor_.enter();
  co_return landed;
}

Task<void> ServerConnection::awaitData(Incoming& write, Clock::time_point until) {
  const Error late{ErrorCode::kDeadlineExceeded, "the bytes of the write did not come in time"};
  for (const bool pressing : {false, true}) {
    co_await write.ended.waitUntil(until);
    if (write.ended.isSet()) co_return;
    abandon(write, late, pressing);
    until = Clock::now() + kReleaseGrace;
  }
  co_await write.ended.wait();
}

void ServerConnection::end(Incoming& write, Status status) {
  if (write.over) return;
  write.over = true;
  write.status = std::move(status);
  if (!write.receiving) write.ended.set();
}

void ServerConnection::abandon(Incoming& write, const Error& reason, bool pressing) {
  end(write, reason);
  if (pressing && write.receiving)
    fail({ErrorCode::kUnavailable, "the other side stalled in the middle of a write"});
}

Result<bool> ServerConnection::onWriteData(const Frame& frame) {
  Result<WriteData> data = decodeBody<WriteData>(frame.body);
  if (!data.ok()) return data.error();
  const std::uint64_t requestId = frame.header.requestId;
  // Parts of a write that is over may still be on their way.
  const auto serving = serving_.find(requestId);
  const bool announced = serving == serving_.end() ? requestId <= lastId_ : serving->second.ready;
  if (!announced)
    return Error{ErrorCode::kProtocolError, "the other side writes what is not waited for"};
  part_ = std::move(*data);
  const auto found = incoming_.find(requestId);
  if (found == incoming_.end() || found->second->over) return true;
  Incoming& write = *found->second;
  const std::uint64_t length = write.memory->size();
  const std::uint64_t end = std::uint64_t{part_.offset} + part_.payloadLength;
  const bool whole = end % kBlockBytes == 0 || end == length;
  if (part_.offset != write.received || end > length || !whole)
    return Error{ErrorCode::kProtocolError, "the other side writes parts that do not fit"};
  write.receiving = true;
  into_ = &write;
  return true;
}

Task<Status> ServerConnection::onPayload() {
  std::size_t done = 0;
  while (into_ != nullptr && !into_->over && done < part_.payloadLength) {
    const std::size_t size = std::min(kPieceBytes, part_.payloadLength - done);
    const auto checksums =
        std::span<const std::uint32_t>(part_.blockChecksums).subspan(done / kBlockBytes);
    Status intact;
    Task<Status> receiving =
        receiveBlocks(*into_->memory, part_.offset + done, size, checksums, intact);
    const Status received = co_await receiving;
    if (!received.ok()) co_return received;
    done += size;
    if (!intact.ok()) end(*into_, std::move(intact));
  }
  if (into_ != nullptr) leave(*std::exchange(into_, nullptr));
  co_return co_await reader_.skip(part_.payloadLength - done);
}

// The reader has let go of its memory.
void ServerConnection::leave(Incoming& write) {
  write.receiving = false;
  if (write.over) return write.ended.set();
  write.received += part_.payloadLength;
  write.checksums.insert(write.checksums.end(), part_.blockChecksums.begin(),
                         part_.blockChecksums.end());
  if (write.received == write.memory->size()) end(write, Status());
}

void ServerConnection::onReaderEnd() {
  if (into_ == nullptr) return;
  end(*into_, failure());
  leave(*std::exchange(into_, nullptr));
}

}  // namespace hearth
