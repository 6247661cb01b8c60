#include "transport/rdma_rail.h"

#include "base/crc32c.h"
#include "transport/limits.h"
#include "transport/request_terms.h"

namespace hearth {
namespace {

// How long a read that nobody waits for any more keeps its window open for the answer: closing it
// under a write that is on its way would fail the endpoint.
constexpr Clock::duration kAnswerGrace = 2 * kReleaseGrace;

// A read that is not answered for so long has the path probed: the failure of the writer's endpoint
// tells the reader nothing, but fails what the reader sends next.
constexpr Clock::duration kProbeAfter = std::chrono::milliseconds(50);

Outcome failed(const Error& error) { return {error, false}; }

Error endpointEnded(const Endpoint& endpoint) {
  return endpoint.failure().ok()
             ? Error{ErrorCode::kUnavailable, "the RDMA endpoint has ended"}
             : Error{ErrorCode::kUnavailable, endpoint.failure().error().message};
}

}  // namespace

RdmaRail::RdmaRail(Reactor& reactor, Gate& gate, std::shared_ptr<ClientConnection> control,
                   std::shared_ptr<PeerStatistics> account)
    : reactor_(reactor),
      gate_(gate),
      control_(std::move(control)),
      account_(std::move(account)),
      requests_(reactor, kRdmaRequests),
      proved_(reactor) {}

RdmaRail::~RdmaRail() = default;

Task<Result<std::shared_ptr<RdmaRail>>> RdmaRail::connect(Reactor& reactor, Gate& gate,
                                                          RdmaShard& shard,
                                                          std::shared_ptr<ClientConnection> control,
                                                          std::shared_ptr<PeerStatistics> account,
                                                          Clock::time_point deadline) {
  if (!shard.device()->limits().hasWindows)
    co_return Error{ErrorCode::kUnsupported, "the RDMA device has no memory windows of type 2"};
  auto rail = std::make_shared<RdmaRail>(reactor, gate, control, std::move(account));
  rail->shard_ = &shard;
  auto endpoint =
      shard.endpoint([self = rail.get()](const auto& message) { self->onMessage(message); });
  if (!endpoint.ok()) co_return endpoint.error();
  rail->endpoint_ = std::move(*endpoint);
  rail->endpoint_->onFailure([self = rail.get()] { self->onFailure(); });

  ControlMessage message{kRdmaConnect, encode(rail->endpoint_->address())};
  Task<Outcome> calling = control->call(message, deadline);
  const Outcome called = co_await calling;
  if (!called.status.ok()) co_return called.status.error();
  const auto theirs = decodeEndpointAddress(message.body);
  if (!theirs.ok()) co_return theirs.error();
  if (const Status connected = rail->endpoint_->connect(*theirs); !connected.ok())
    co_return connected.error();
  if (const Status sent = rail->send(encodeEmptyFrame(FrameType::kPing, 1)); !sent.ok())
    co_return sent.error();
  co_await rail->proved_.waitUntil(deadline);
  if (!rail->hasProof_) {
    if (!rail->endpoint_->usable()) co_return endpointEnded(*rail->endpoint_);
    co_return Error{ErrorCode::kDeadlineExceeded, "no RDMA message came back in time"};
  }
  co_return rail;
}

bool RdmaRail::usable() const {
  return hasProof_ && endpoint_->usable() && endpoint_->device()->usable() && control_->alive();
}

void RdmaRail::fail(Error reason) { endpoint_->fail(std::move(reason)); }

bool RdmaRail::reaches(const RailTransfer& transfer) const {
  const std::span<const MemorySlice> slices = transfer.memory.slices();
  return transfer.direction == Direction::kRead && transfer.memory.isHost() && slices.size() == 1 &&
         endpoint_->device()->registeredAs(*slices.front().region) != nullptr;
}

void RdmaRail::post(std::vector<std::unique_ptr<RailWork>> batch) {
  for (std::unique_ptr<RailWork>& work : batch)
    gate_.spawn(carry(shared_from_this(), std::move(work)));
}

Task<void> RdmaRail::carry(std::shared_ptr<RdmaRail> self, std::unique_ptr<RailWork> work) {
  if (!self->reaches(work->transfer())) {
    work->settle(failed({ErrorCode::kUnsupported, "RDMA does not reach this memory"}));
    co_return;
  }
  const std::uint64_t bytes = work->transfer().memory.size();
  self->load_ += bytes;
  Reading reading{.changed = Event(self->reactor_)};
  work->onCancel([&reading] {
    reading.cancelled = true;
    reading.changed.set();
  });
  co_await self->requests_.acquire(1);
  Outcome outcome = failed(endpointEnded(*self->endpoint_));
  if (self->usable() && !reading.cancelled) {
    Task<Outcome> reads = self->read(*work, reading);
    outcome = co_await reads;
  }
  work->onCancel({});
  self->requests_.release(1);
  self->load_ -= bytes;
  work->settle(std::move(outcome));
}

Task<Outcome> RdmaRail::read(RailWork& work, Reading& reading) {
  if (windows_.empty()) {
    auto made = Window::create(*endpoint_);
    if (!made.ok()) co_return failed(made.error());
    windows_.push_back(std::move(*made));
  }
  std::unique_ptr<Window> window = std::move(windows_.back());
  windows_.pop_back();
  Task<Outcome> reads = readInto(work, reading, *window);
  Outcome outcome = co_await reads;
  // One that could not be closed takes its key with it.
  if (!window->isOpen()) windows_.push_back(std::move(window));
  co_return outcome;
}

Task<Outcome> RdmaRail::readInto(RailWork& work, Reading& reading, Window& window) {
  const RailTransfer& transfer = work.transfer();
  const MemorySlice& memory = transfer.memory.slices().front();
  const auto length = static_cast<std::uint32_t>(memory.size);
  // Callbacks of the endpoint may come after this coroutine's end only with its rail: they hold
  // what they set.
  auto done = std::make_shared<Event>(reactor_);
  auto key = std::make_shared<Result<std::uint32_t>>(0u);
  window.open(memory, [done, key](Result<std::uint32_t> opened) {
    *key = std::move(opened);
    done->set();
  });
  co_await done->wait();
  if (!key->ok()) co_return failed({ErrorCode::kUnavailable, key->error().message});

  const std::uint64_t requestId = ++lastId_;
  ReadRequest request{transfer.key,
                      transfer.offset,
                      length,
                      timeoutMsUntil(transfer.timeouts.deadline),
                      transfer.requestClass,
                      {}};
  request.target = MemoryDescriptor{.kind = MemoryKind::kHost,
                                    .leaseMs = std::max(request.timeoutMs, 1u),
                                    .region = memory.region->number(),
                                    .generation = 1,
                                    .address = memory.region->address() + memory.offset,
                                    .length = length,
                                    .keys = {{0, **key}}};
  readings_[requestId] = &reading;
  if (const Status sent = send(encodeFrame(request, requestId)); !sent.ok())
    reading.answer = Result<ReadAnswer>(sent.error());
  ++account_->rdmaRequests;
  while (!reading.answer && !reading.cancelled && Clock::now() < transfer.timeouts.deadline) {
    co_await reading.changed.waitUntil(
        std::min(transfer.timeouts.deadline, Clock::now() + kProbeAfter));
    if (!reading.answer && !probing_) probing_ = send(encodeEmptyFrame(FrameType::kPing, 1)).ok();
  }
  if (!reading.answer) {
    work.settle(failed({ErrorCode::kDeadlineExceeded, "the other side did not answer in time"}));
    reading.changed.reset();
    co_await reading.changed.waitUntil(Clock::now() + kAnswerGrace);
  }
  readings_.erase(requestId);

  done->reset();
  window.close([done](const Status&) { done->set(); });
  co_await done->wait();
  if (!reading.answer)
    co_return failed({ErrorCode::kDeadlineExceeded, "the other side did not answer in time"});
  co_return judge(work, *reading.answer);
}

Outcome RdmaRail::judge(RailWork& work, const Result<ReadAnswer>& answer) {
  if (!answer.ok()) return failed(answer.error());
  if (answer->code != ErrorCode::kOk) return {Error{answer->code, answer->sentence}, true};
  const std::span<const std::byte> bytes = work.transfer().memory.slices().front().bytes();
  if (answer->payloadLength != bytes.size())
    return failed({ErrorCode::kProtocolError, "the other side wrote another number of bytes"});
  const std::vector<std::uint32_t> found = crc32cOfBlocks(bytes, kBlockBytes);
  if (found != answer->blockChecksums)
    return failed({ErrorCode::kCorrupt, "bytes that came by RDMA do not match their checksums"});
  std::ranges::copy(found, work.checksums().begin());
  return {Status(), true};
}

Status RdmaRail::send(std::span<const std::byte> frame) {
  Result<MemorySlice> message = shard_->message(frame);
  if (!message.ok()) return message.error();
  auto transfer = std::make_unique<Transfer>();
  transfer->kind = Transfer::Kind::kSend;
  transfer->local = std::move(*message);
  std::vector<std::unique_ptr<Transfer>> batch;
  batch.push_back(std::move(transfer));
  endpoint_->post(std::move(batch));
  return {};
}

void RdmaRail::onMessage(const Endpoint::Message& message) {
  // Each answer says that the receive of its request is posted again.
  endpoint_->addCredit(1);
  const auto malformed = [&](const Error& error) { endpoint_->fail(error); };
  if (message.bytes.size() < kFrameHeaderBytes)
    return malformed({ErrorCode::kProtocolError, "an RDMA message is shorter than a frame"});
  const Result<FrameHeader> header = decodeHeader(message.bytes.first(kFrameHeaderBytes));
  if (!header.ok()) return malformed(header.error());
  const std::span<const std::byte> body = message.bytes.subspan(kFrameHeaderBytes);
  if (const Status intact = checkBody(*header, body); !intact.ok())
    return malformed(intact.error());
  if (header->type == FrameType::kPong) {
    hasProof_ = true;
    probing_ = false;
    return proved_.set();
  }
  if (header->type != FrameType::kReadAnswer)
    return malformed({ErrorCode::kProtocolError, "an RDMA message is no answer"});
  Result<ReadAnswer> answer = decodeBody<ReadAnswer>(body);
  if (!answer.ok()) return malformed(answer.error());
  const auto found = readings_.find(header->requestId);
  if (found == readings_.end()) return;  // it came too late
  account_->rdmaBytesReceived += answer->code == ErrorCode::kOk ? answer->payloadLength : 0;
  found->second->answer = std::move(answer);
  found->second->changed.set();
}

void RdmaRail::onFailure() {
  const Error error = endpointEnded(*endpoint_);
  account_->rdmaError = error.message;
  for (const auto& [requestId, reading] : readings_) {
    reading->answer = Result<ReadAnswer>(error);
    reading->changed.set();
  }
  proved_.set();
}

}  // namespace hearth
