#include "transport/rdma_channel.h"

#include <utility>

namespace hearth {
namespace {

// The number that comes with a message: how many messages were taken since the last one, and
// whether this is the last of all.
constexpr std::uint32_t kGoodbyeBit = std::uint32_t{1} << 31;

Error breaks(const char* how) { return {ErrorCode::kProtocolError, how}; }

}  // namespace

Result<std::unique_ptr<RdmaChannel>> RdmaChannel::create(RdmaShard& shard, std::uint32_t requests,
                                                         std::uint32_t payloadBytes,
                                                         OnFrame onFrame) {
  std::unique_ptr<RdmaChannel> made(new RdmaChannel(shard, std::move(onFrame)));
  auto endpoint =
      shard.endpoint(requests, kRdmaMessageBytes + payloadBytes,
                     [self = made.get()](const auto& message) { self->onMessage(message); });
  if (!endpoint.ok()) return endpoint.error();
  made->endpoint_ = std::move(*endpoint);
  return made;
}

Status RdmaChannel::connect(const EndpointAddress& theirs) {
  theirReceiveBytes_ = theirs.receiveBytes;
  return endpoint_->connect(theirs);
}

Error RdmaChannel::failure() const {
  if (endpoint_->failure().ok()) return {ErrorCode::kUnavailable, "the RDMA endpoint has ended"};
  return endpoint_->failure().error();
}

void RdmaChannel::post(std::unique_ptr<Transfer> before, std::unique_ptr<Transfer> message) {
  std::vector<std::unique_ptr<Transfer>> batch;
  // A frame must not follow data that was not taken, and say that it was.
  const auto failed = [this](const Status& status) {
    if (!status.ok() && endpoint_->usable()) endpoint_->fail(status.error());
  };
  if (before) {
    before->settled = failed;
    batch.push_back(std::move(before));
  }
  message->kind = Transfer::Kind::kSend;
  message->immediate = message->immediate.value_or(0) | std::exchange(unreported_, 0);
  if (!message->settled) message->settled = failed;
  batch.push_back(std::move(message));
  endpoint_->post(std::move(batch));
}

Status RdmaChannel::send(std::span<const std::byte> frame, std::unique_ptr<Transfer> before,
                         MemoryVector payload) {
  if (frame.size() + payload.size() > theirReceiveBytes_)
    return Error{ErrorCode::kUnsupported, "the other side takes no RDMA message of that length"};
  Result<MemorySlice> copy = shard_.message(frame);
  if (!copy.ok()) return copy.error();
  std::vector<MemorySlice> slices{std::move(*copy)};
  for (const MemorySlice& slice : payload.slices()) slices.push_back(slice);
  auto message = std::make_unique<Transfer>();
  message->local = MemoryVector(std::move(slices));
  post(std::move(before), std::move(message));
  return {};
}

bool RdmaChannel::promise() {
  if (endpoint_->spareCredit() <= promised_) return false;
  ++promised_;
  return true;
}

Status RdmaChannel::ping() { return send(encodeEmptyFrame(FrameType::kPing, 1)); }

void RdmaChannel::sayGoodbye(std::function<void()> sent) {
  auto message = std::make_unique<Transfer>();
  message->immediate = kGoodbyeBit;
  message->settled = [sent = std::move(sent)](const Status&) { sent(); };
  post(nullptr, std::move(message));
}

void RdmaChannel::onMessage(const Endpoint::Message& message) {
  ++heard_;
  ++unreported_;
  const std::uint32_t number = message.immediate.value_or(0);
  if ((number & kGoodbyeBit) != 0)
    return endpoint_->fail({ErrorCode::kCancelled, "the other side has closed its RDMA endpoint"});
  endpoint_->addCredit(number);
  if (const Status taken = take(message); !taken.ok()) endpoint_->fail(taken.error());
}

Status RdmaChannel::take(const Endpoint::Message& message) {
  if (message.bytes.size() < kFrameHeaderBytes)
    return breaks("an RDMA message is shorter than a frame");
  const Result<FrameHeader> header = decodeHeader(message.bytes.first(kFrameHeaderBytes));
  if (!header.ok()) return header.error();
  const std::span<const std::byte> rest = message.bytes.subspan(kFrameHeaderBytes);
  if (header->bodyLength > rest.size()) return breaks("an RDMA message ends before its frame");
  const std::span<const std::byte> body = rest.first(header->bodyLength);
  if (Status intact = checkBody(*header, body); !intact.ok()) return intact;
  if (header->type == FrameType::kPing) {
    if (endpoint_->spareCredit() <= promised_)
      return breaks("an RDMA ping leaves no receive for its answer");
    return send(encodeEmptyFrame(FrameType::kPong, header->requestId));
  }
  if (header->type != FrameType::kPong) return onFrame_({*header, body, rest.subspan(body.size())});
  proved_ = true;
  return {};
}

}  // namespace hearth
