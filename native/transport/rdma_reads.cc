// Reads over an RDMA endpoint, on the asking side.
#include <algorithm>

#include "base/crc32c.h"
#include "transport/limits.h"
#include "transport/rdma_rail.h"
#include "transport/request_terms.h"

namespace hearth {
namespace {

// How long an unwanted read keeps its window open for an answer that may be on its way: to close
// the window under a write would fail the endpoint of the other side.
constexpr Clock::duration kAnswerGrace = 2 * kReleaseGrace;

Outcome failed(ErrorCode code, std::string sentence) {
  return {Error{code, std::move(sentence)}, false};
}

// How soon a read notices a port that goes down, or a silent path.
Clock::duration lookEvery(const RdmaShard& shard) {
  return std::min<Clock::duration>(shard.times().silence / 4, kReleaseGrace);
}

ReadRequest requestOf(const RailTransfer& transfer, std::uint64_t offset, std::uint64_t bytes) {
  return {transfer.key,
          transfer.offset + offset,
          static_cast<std::uint32_t>(bytes),
          timeoutMsUntil(transfer.timeouts.deadline),
          transfer.requestClass,
          {}};
}

}  // namespace

Task<Outcome> RdmaRail::read(RailWork& work, Reading& reading) {
  if (windows_.empty()) {
    auto made = Window::create(channel_->endpoint());
    if (!made.ok()) co_return failed(made.error().code, made.error().message);
    windows_.push_back(std::move(*made));
  }
  std::unique_ptr<Window> window = std::move(windows_.back());
  windows_.pop_back();
  Task<Outcome> reads = readInto(work, reading, *window);
  Outcome outcome = co_await reads;
  // A window that could not be closed is dropped, with its key.
  if (!window->isOpen()) windows_.push_back(std::move(window));
  co_return outcome;
}

Task<Outcome> RdmaRail::readInto(RailWork& work, Reading& reading, Window& window) {
  const RailTransfer& transfer = work.transfer();
  const MemorySlice& memory = transfer.memory.slices().front();
  Task<bool> admits = admit(reading);
  const bool isAdmitted = co_await admits;
  if (!isAdmitted) co_return judge(transfer.memory, reading.answer, work.checksums());
  // Callbacks of the endpoint may come after this coroutine's end, so they own the variables that
  // they set.
  auto done = std::make_shared<Event>(with_.reactor);
  auto key = std::make_shared<Result<std::uint32_t>>(0u);
  window.open(memory, [done, key](Result<std::uint32_t> opened) {
    *key = std::move(opened);
    done->set();
  });
  Task<void> opens = awaitDone(*done);
  co_await opens;
  if (!key->ok()) {
    requests_.release(1);
    co_return failed(ErrorCode::kUnavailable, key->error().message);
  }

  ReadRequest request = requestOf(transfer, 0, memory.size);
  request.target = MemoryDescriptor{.kind = MemoryKind::kHost,
                                    .leaseMs = std::max(request.timeoutMs, 1u),
                                    .region = memory.region->number(),
                                    .generation = 1,
                                    .address = memory.region->address() + memory.offset,
                                    .length = memory.size,
                                    .keys = {{0, **key}}};
  Task<void> asks = ask(std::move(request), reading, work);
  co_await asks;

  done->reset();
  window.close([done](const Status&) { done->set(); });
  Task<void> closes = awaitDone(*done);
  co_await closes;
  co_return judge(transfer.memory, reading.answer, work.checksums());
}

Task<Outcome> RdmaRail::readByMessages(RailWork& work, Reading& reading) {
  const std::size_t count = blocksOf(work.transfer().memory.size());
  std::vector<Outcome> outcomes(count);
  Gate blocks(with_.reactor);
  for (std::size_t block = 0; block < count; ++block)
    blocks.spawn(readBlock(work, block, reading, outcomes[block]));
  co_await blocks.close();
  for (Outcome& outcome : outcomes)
    if (!outcome.status.ok()) co_return std::move(outcome);
  co_return Outcome{Status(), true};
}

Task<void> RdmaRail::readBlock(RailWork& work, std::size_t block, Reading& whole,
                               Outcome& outcome) {
  const RailTransfer& transfer = work.transfer();
  const std::uint64_t offset = block * kBlockBytes;
  const std::uint64_t bytes = std::min(kBlockBytes, transfer.memory.size() - offset);
  Reading reading{.changed = Event(with_.reactor), .into = transfer.memory.part(offset, bytes)};
  reading.cancelled = whole.cancelled;
  whole.parts.push_back(&reading);
  Task<bool> admits = admit(reading);
  const bool isAdmitted = co_await admits;
  if (isAdmitted) {
    Task<void> asks = ask(requestOf(transfer, offset, bytes), reading, work);
    co_await asks;
  }
  std::erase(whole.parts, &reading);
  outcome = judge(reading.into, reading.answer, work.checksums().subspan(block, 1));
}

Task<bool> RdmaRail::admit(Reading& reading) {
  co_await requests_.acquire(1);
  if (usable() && !reading.cancelled) co_return true;
  requests_.release(1);
  if (!reading.cancelled)
    reading.answer = Result<ReadAnswer>(Error{ErrorCode::kUnavailable, failure().message});
  co_return false;
}

Task<void> RdmaRail::ask(ReadRequest request, Reading& reading, RailWork& work) {
  const Clock::time_point deadline = work.transfer().timeouts.deadline;
  const bool isWritten = request.target.has_value();
  const std::uint64_t requestId = ++lastId_;
  readings_[requestId] = &reading;
  ++with_.account->rdmaRequests;
  if (const Status sent = channel_->send(encodeFrame(request, requestId)); !sent.ok()) {
    if (readings_.erase(requestId) != 0) requests_.release(1);
    reading.answer = Result<ReadAnswer>(sent.error());
    co_return;
  }
  Task<void> awaits = awaitAnswer(reading, deadline);
  co_await awaits;
  if (reading.answer) co_return;
  // If the other side has not begun, it answers without a byte.
  static_cast<void>(channel_->send(encodeEmptyFrame(FrameType::kCancel, requestId)));
  work.settle(failed(ErrorCode::kDeadlineExceeded, "the other side did not answer in time"));
  if (isWritten) {
    const Clock::time_point grace = Clock::now() + kAnswerGrace;
    while (!reading.answer && Clock::now() < grace) {
      reading.changed.reset();
      co_await reading.changed.waitUntil(grace);
    }
  }
  if (const auto found = readings_.find(requestId); found != readings_.end())
    found->second = nullptr;
  // The read's time was over before.
  reading.answer.reset();
}

Task<void> RdmaRail::awaitAnswer(Reading& reading, Clock::time_point until) {
  const Clock::duration every = lookEvery(with_.shard);
  while (!reading.answer && !reading.cancelled && Clock::now() < until) {
    co_await reading.changed.waitUntil(std::min(until, Clock::now() + every));
    if (!reading.answer) look();
  }
}

Task<void> RdmaRail::awaitDone(Event& done) {
  while (!done.isSet()) {
    const bool inTime = co_await done.waitUntil(Clock::now() + lookEvery(with_.shard));
    if (!inTime) look();
  }
}

void RdmaRail::look() {
  check();
  if (!channel_->usable()) return;
  const Clock::duration silence = with_.shard.times().silence;
  if (!liveness_.isDue(silence)) return;
  // Messages that came while this thread was busy count.
  with_.shard.takeNow();
  if (!channel_->usable()) return;
  if (liveness_.silentFor(silence, channel_->heard())) {
    fail({ErrorCode::kUnavailable, "nothing has come over the RDMA endpoint for " +
                                       std::to_string(silence / std::chrono::milliseconds(1)) +
                                       " ms, not even an answer to a probe"});
  } else if (liveness_.wantsProbe(silence)) {
    static_cast<void>(channel_->ping());
  }
}

Outcome RdmaRail::judge(const MemoryVector& memory, const std::optional<Result<ReadAnswer>>& answer,
                        std::span<std::uint32_t> checksums) {
  if (!answer) return failed(ErrorCode::kDeadlineExceeded, "the other side did not answer in time");
  if (!answer->ok()) return failed(answer->error().code, answer->error().message);
  const ReadAnswer& said = **answer;
  if (said.code != ErrorCode::kOk) return {Error{said.code, said.sentence}, true};
  if (said.payloadLength != memory.size())
    return failed(ErrorCode::kProtocolError, "the other side wrote another number of bytes");
  std::vector<std::uint32_t> found;
  for (std::uint64_t at = 0; at < memory.size(); at += kBlockBytes) {
    std::uint32_t checksum = 0;
    forEachPiece(memory, at, std::min<std::uint64_t>(kBlockBytes, memory.size() - at),
                 [&](auto piece) { checksum = crc32c(piece, checksum); });
    found.push_back(checksum);
  }
  if (found != said.blockChecksums)
    return failed(ErrorCode::kCorrupt, "bytes that came by RDMA do not match their checksums");
  std::ranges::copy(found, checksums.begin());
  return {Status(), true};
}

}  // namespace hearth
