// Writes of the asking side. A part is queued when the one before it was sent, so that other frames
// come between, and its checksums are made just before: its bytes are in the processor's cache when
// they are sent.
#include <algorithm>

#include "transport/client_connection.h"
#include "transport/limits.h"

namespace hearth {

Result<bool> ClientConnection::onWriteReady(std::uint64_t requestId) {
  const auto found = sent_.find(requestId);
  const bool asked = found != sent_.end() && found->second.answer == FrameType::kWriteAnswer;
  if (!asked || found->second.ready)
    return Error{ErrorCode::kProtocolError, "the other side is ready for what is not written"};
  found->second.ready = true;
  if (Exchange* const exchange = found->second.exchange) queuePart(requestId, *exchange);
  return false;
}

void ClientConnection::queuePart(std::uint64_t requestId, Exchange& exchange) {
  const std::uint32_t size = std::min<std::uint32_t>(
      kWritePartBytes, static_cast<std::uint32_t>(exchange.memory.size()) - exchange.queued);
  WriteData data{.offset = exchange.queued, .payloadLength = size, .blockChecksums = {}};
  for (std::uint32_t at = 0; at < size; at += kBlockBytes) {
    const std::size_t length = std::min<std::size_t>(kBlockBytes, size - at);
    data.blockChecksums.push_back(blockChecksum(exchange.memory, data.offset + at, length));
  }
  std::ranges::copy(data.blockChecksums, exchange.checksums.begin() + data.offset / kBlockBytes);
  queue_.push({.frame = encodeFrame(data, requestId),
               .payload = {},
               .keep = nullptr,
               .source = exchange.memory.part(data.offset, size),
               .requestId = requestId,
               .requestClass = std::get<WriteRequest>(exchange.request).requestClass});
  exchange.queued += size;
}

void ClientConnection::onSending(const SendQueue::Item& item) {
  const auto found = sent_.find(item.requestId);
  if (item.source.empty() || found == sent_.end() || found->second.exchange == nullptr) return;
  // Bytes acknowledged until now were none of the part.
  if (partsOut_ == 0) static_cast<void>(progress());
  partsOut_ += item.source.size();
  found->second.exchange->moving = true;
  sending_.emplace(item.requestId, found->second.exchange);
}

void ClientConnection::onSent(const SendQueue::Item& item) {
  const auto found = sending_.find(item.requestId);
  if (found == sending_.end()) return;
  Exchange& exchange = *found->second;
  sending_.erase(found);
  exchange.moving = false;
  if (exchange.abandoned || exchange.answered) return exchange.done.set();
  if (exchange.queued < exchange.memory.size()) queuePart(item.requestId, exchange);
}

Result<bool> ClientConnection::onWriteAnswer(const Frame& frame, Sent sent) {
  writeCredit_.release(sent.cost);
  // Drops a part that waits in the queue, as it is of no use any more.
  const bool waited = queue_.withdraw(frame.header.requestId, {});
  Result<WriteAnswer> answer = decodeBody<WriteAnswer>(frame.body);
  if (!answer.ok()) {
    settle(sent, {answer.error(), false});
    return answer.error();
  }
  Exchange* const exchange = sent.exchange;
  if (answer->code == ErrorCode::kOk) {
    // The last part may be on its way still: an honest peer has read all of it.
    const bool all =
        exchange == nullptr || (exchange->queued == exchange->memory.size() && !waited);
    const Error early{ErrorCode::kProtocolError, "the other side took a write before it was sent"};
    settle(sent, all ? Outcome{Status(), true} : Outcome{early, false});
    if (!all) return early;
    return false;
  }
  // Bytes that were spoilt on their way may come through on another rail.
  const bool final = answer->code != ErrorCode::kCorrupt && answer->code != ErrorCode::kUnavailable;
  settle(sent, {Error{answer->code, std::move(answer->sentence)}, final});
  return false;
}

}  // namespace hearth
