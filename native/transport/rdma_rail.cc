#include "transport/rdma_rail.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/byte_codec.h"

namespace hearth {
namespace {

// Answers in messages need a receive of a block each, so fewer requests go out at once.
constexpr std::uint32_t kRequestsByMessages = 16;

}  // namespace

RdmaRail::RdmaRail(With with)
    : with_(std::move(with)),
      most_(with_.shard.requestsOf(hasWindows() ? kRdmaRequests : kRequestsByMessages)),
      requests_(with_.reactor, most_),
      changed_(with_.reactor),
      liveness_(with_.reactor) {}

RdmaRail::~RdmaRail() = default;

Task<Result<std::shared_ptr<RdmaRail>>> RdmaRail::connect(With with, Clock::time_point deadline) {
  auto rail = std::make_shared<RdmaRail>(std::move(with));
  auto channel = RdmaChannel::create(
      rail->with_.shard, rail->most_,
      rail->hasWindows() ? 0 : static_cast<std::uint32_t>(kBlockBytes),
      [self = rail.get()](const RdmaChannel::Frame& frame) { return self->onFrame(frame); });
  if (!channel.ok()) co_return channel.error();
  rail->channel_ = std::move(*channel);
  rail->channel_->onEnd([self = rail.get()] { self->onEnd(); });

  ControlMessage message{kRdmaConnect, encode(rail->channel_->address())};
  if (const std::uint32_t port = rail->with_.port; port != 0) {
    ByteWriter number;
    number.u32(port);
    std::ranges::copy(number.take(), std::back_inserter(message.body));
  }
  Task<Outcome> calling = rail->with_.control->call(message, deadline);
  const Outcome called = co_await calling;
  if (!called.status.ok()) co_return called.status.error();
  const auto theirs = decodeEndpointAddress(message.body);
  if (!theirs.ok()) co_return theirs.error();
  if (const Status connected = rail->channel_->connect(*theirs); !connected.ok())
    co_return connected.error();
  Task<Status> proving = rail->prove(deadline);
  const Status proved = co_await proving;
  if (!proved.ok()) co_return proved.error();
  co_return rail;
}

Task<Status> RdmaRail::prove(Clock::time_point deadline) {
  if (Status sent = channel_->ping(); !sent.ok()) co_return sent;
  while (!channel_->proved()) {
    if (!channel_->usable()) co_return channel_->failure();
    changed_.reset();
    const bool inTime = co_await changed_.waitUntil(
        std::min(deadline, Clock::now() + std::chrono::milliseconds(10)));
    if (!inTime && Clock::now() >= deadline)
      co_return Error{ErrorCode::kDeadlineExceeded, "no RDMA message came back in time"};
  }
  co_return Status();
}

bool RdmaRail::usable() const {
  return !closing_ && channel_->usable() && with_.shard.device()->usable() &&
         with_.control->alive();
}

void RdmaRail::check() {
  if (closing_ || !channel_->usable()) return;
  if (!with_.shard.device()->usable())
    return fail({ErrorCode::kUnavailable, "the RDMA port has gone down"});
  if (!with_.control->alive())
    fail({ErrorCode::kUnavailable, "the connection of the RDMA endpoint has ended"});
}

bool RdmaRail::reaches(const RailTransfer& transfer) const {
  if (transfer.direction != Direction::kRead || !transfer.memory.isHost()) return false;
  if (requests_.waiting() >= kRdmaRequests) return false;
  if (!hasWindows()) return true;
  const std::span<const MemorySlice> slices = transfer.memory.slices();
  return slices.size() == 1 &&
         with_.shard.device()->registeredAs(*slices.front().region) != nullptr;
}

void RdmaRail::post(std::vector<std::unique_ptr<RailWork>> batch) {
  for (std::unique_ptr<RailWork>& work : batch)
    with_.gate.spawn(carry(shared_from_this(), std::move(work)));
}

void RdmaRail::Reading::cancel() {
  cancelled = true;
  changed.set();
  for (Reading* const part : parts) part->cancel();
}

Task<void> RdmaRail::carry(std::shared_ptr<RdmaRail> self, std::unique_ptr<RailWork> work) {
  if (!self->reaches(work->transfer())) {
    work->settle({Error{ErrorCode::kUnsupported, "RDMA does not reach this memory"}, false});
    co_return;
  }
  const std::uint64_t bytes = work->transfer().memory.size();
  const Clock::time_point began = Clock::now();
  self->load_ += bytes;
  if (self->underWay_++ == 0) self->liveness_.start(self->channel_->heard());
  self->meter_.started(began);
  ++self->statistics().requests;
  Reading reading{.changed = Event(self->with_.reactor)};
  work->onCancel([&reading] { reading.cancel(); });
  Task<Outcome> reads =
      self->hasWindows() ? self->read(*work, reading) : self->readByMessages(*work, reading);
  Outcome outcome = co_await reads;
  work->onCancel({});
  self->load_ -= bytes;
  --self->underWay_;
  self->lastUsed_ = Clock::now();
  self->account(outcome, bytes, began);
  work->settle(std::move(outcome));
}

void RdmaRail::account(const Outcome& outcome, std::uint64_t bytes, Clock::time_point began) {
  RailStatistics& statistics = this->statistics();
  const bool isRead = outcome.status.ok();
  meter_.ended(lastUsed_, isRead ? bytes : 0);
  if (isRead) {
    statistics.bytesReceived += bytes;
    statistics.latency.record(lastUsed_ - began);
    statistics.bytesPerSecond = meter_.bytesPerSecond(lastUsed_);
    with_.account->rdmaBytesReceived += bytes;
  } else if (outcome.retryable()) {
    ++statistics.retries;
  }
}

Status RdmaRail::onFrame(const RdmaChannel::Frame& frame) {
  if (frame.header.type != FrameType::kReadAnswer)
    return Error{ErrorCode::kProtocolError, "an RDMA message is no answer"};
  Result<ReadAnswer> answer = decodeBody<ReadAnswer>(frame.body);
  if (!answer.ok()) return answer.error();
  const auto found = readings_.find(frame.header.requestId);
  if (found == readings_.end())
    return Error{ErrorCode::kProtocolError, "an RDMA answer belongs to no request"};
  Reading* const reading = found->second;
  readings_.erase(found);
  requests_.release(1);
  if (reading == nullptr) return {};
  if (frame.payload.size() != (answer->code == ErrorCode::kOk ? reading->into.size() : 0)) {
    reading->answer =
        Result<ReadAnswer>(Error{ErrorCode::kProtocolError, "an RDMA answer has another length"});
  } else {
    copyInto(reading->into, 0, frame.payload);
    reading->answer = std::move(answer);
  }
  reading->changed.set();
  return {};
}

void RdmaRail::onEnd() {
  const Error error{ErrorCode::kUnavailable, failure().message};
  for (const auto& [requestId, reading] : std::exchange(readings_, {})) {
    requests_.release(1);
    if (reading == nullptr) continue;
    reading->answer = Result<ReadAnswer>(error);
    reading->changed.set();
  }
  changed_.set();
}

Task<void> RdmaRail::awaitEnd(Clock::duration idle) {
  while (channel_->usable()) {
    const Clock::time_point now = Clock::now();
    if (underWay_ == 0 && now - lastUsed_ >= idle) break;
    changed_.reset();
    const Clock::time_point last = underWay_ == 0 ? lastUsed_ : now;
    const bool isForever = idle > Clock::time_point::max() - last;
    co_await changed_.waitUntil(isForever ? Clock::time_point::max() : last + idle);
  }
  if (!channel_->usable()) co_return;
  closing_ = true;
  auto said = std::make_shared<Event>(with_.reactor);
  channel_->sayGoodbye([said] { said->set(); });
  co_await said->waitUntil(Clock::now() + with_.shard.times().silence);
  fail({ErrorCode::kCancelled, "the RDMA endpoint was closed because nothing went over it"});
}

}  // namespace hearth
