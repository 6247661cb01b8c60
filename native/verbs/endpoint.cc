#include "verbs/endpoint.h"

#include <algorithm>
#include <cerrno>

namespace hearth {

OpenedMemory::~OpenedMemory() {
  if (window != nullptr) device->verbs().deallocMw(window);
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(std::shared_ptr<RdmaDevice> device,
                                                   CompletionQueue& completions,
                                                   EndpointOptions options, OnMessage onMessage) {
  std::unique_ptr<Endpoint> made(new Endpoint(std::move(onMessage)));
  auto pair = QueuePair::create(std::move(device), completions, *made, options);
  if (!pair.ok()) return pair.error();
  made->pair_ = std::move(*pair);
  return made;
}

Endpoint::~Endpoint() {
  onFailure_ = {};
  fail({ErrorCode::kCancelled, "the RDMA endpoint was closed"});
  // Before the ledger: from here on the device uses nothing of it.
  pair_.reset();
}

Status Endpoint::connect(const EndpointAddress& theirs) {
  if (state_ != State::kInitial)
    return Error{ErrorCode::kInvalidArgument, "the endpoint has been connected before"};
  if (Status connected = pair_->connect(theirs); !connected.ok()) return connected;
  credit_ = theirs.receives;
  state_ = State::kReady;
  return {};
}

Endpoint::Counts Endpoint::counts() const {
  Counts counts = counts_;
  counts.bytesWritten = inFlight_.bytesWritten();
  return counts;
}

void Endpoint::post(std::vector<std::unique_ptr<Transfer>> batch) {
  for (std::unique_ptr<Transfer>& transfer : batch) {
    if (state_ == State::kReady) {
      waiting_.push_back(std::move(transfer));
    } else {
      transfer->settle(
          state_ == State::kFailed
              ? failure_
              : Status(Error{ErrorCode::kUnavailable, "the RDMA endpoint is not connected"}));
    }
  }
  pump();
}

void Endpoint::addCredit(std::uint32_t receives) {
  credit_ += receives;
  pump();
}

std::uint32_t Endpoint::spareCredit() const {
  const auto waiting =
      std::ranges::count_if(waiting_, [](const auto& each) { return each->takesReceive(); });
  return credit_ - std::min(credit_, static_cast<std::uint32_t>(waiting));
}

void Endpoint::pump() {
  if (std::exchange(pumping_, true)) return;
  while (state_ == State::kReady && !waiting_.empty()) {
    WorkChain chain(*pair_);
    while (!waiting_.empty()) {
      const Result<std::size_t> count = WorkChain::requestsOf(*pair_, *waiting_.front());
      // One place is kept for a marker.
      const std::size_t taken = inFlight_.size() + chain.entries.size() + 1;
      if (count.ok() && taken + *count > pair_->options().sendRequests) break;
      const bool takes = count.ok() && waiting_.front()->takesReceive();
      if (takes && credit_ == 0) break;
      std::unique_ptr<Transfer> transfer = std::move(waiting_.front());
      waiting_.pop_front();
      if (!count.ok()) {
        transfer->settle(count.error());
        continue;
      }
      credit_ -= takes ? 1 : 0;
      chain.add(std::move(transfer), *count);
    }
    if (chain.entries.empty()) break;
    postChain(chain);
  }
  pumping_ = false;
}

void Endpoint::postChain(WorkChain& chain) {
  chain.link(nextSequence_, sinceSignal_);
  std::size_t at = 0;
  while (at < chain.entries.size() && state_ == State::kReady) {
    ibv_send_wr* bad = nullptr;
    const int error = pair_->post(&chain.entries[at].request, &bad);
    std::optional<std::size_t> stopped = chain.entries.size();
    if (error != 0) stopped = chain.indexOf(bad, at);
    if (!stopped) {
      fail({ErrorCode::kInternal, "the RDMA device does not say which requests it has taken"});
      break;
    }
    take(chain, at, *stopped);
    if (error == 0) break;
    refuse(chain, at, error);
  }
  for (const std::unique_ptr<Transfer>& left : chain.transfers)
    if (left) left->settle(failure_);
  if (state_ != State::kReady || !inFlight_.needsMarker()) return;
  if (const int error = postMarker(); error != 0)
    fail(errnoError(error, "posting to an RDMA device"));
}

void Endpoint::take(WorkChain& chain, std::size_t& at, std::size_t stopped) {
  for (; at < stopped; ++at) {
    const WorkChain::Entry& entry = chain.entries[at];
    std::unique_ptr<Transfer>& owner = chain.transfers[entry.transfer];
    ++counts_.requests;
    counts_.signalled += entry.signalled() ? 1 : 0;
    inFlight_.add(entry.request.wr_id, owner.get(), entry.signalled());
    if (entry.last) inFlight_.own(std::move(owner));
  }
}

void Endpoint::refuse(WorkChain& chain, std::size_t& at, int error) {
  const std::size_t index = chain.entries[at].transfer;
  std::unique_ptr<Transfer> refused = std::move(chain.transfers[index]);
  if (refused->takesReceive()) ++credit_;
  refused->settle(errnoError(error, "posting to an RDMA device"));
  if (inFlight_.endsWith(*refused)) {
    // The device has the first requests of this transfer.
    ++counts_.partialPosts;
    inFlight_.own(std::move(refused));
  }
  while (at < chain.entries.size() && chain.entries[at].transfer == index) ++at;
}

int Endpoint::postMarker() {
  ibv_send_wr request{};
  request.wr_id = nextSequence_++;
  request.opcode = IBV_WR_RDMA_WRITE;  // of no bytes: no key is looked at
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (const int error = pair_->post(&request, &bad); error != 0) return error;
  sinceSignal_ = 0;
  ++counts_.markers;
  inFlight_.add(request.wr_id, nullptr, true);
  return 0;
}

void Endpoint::onCompletion(const ibv_wc& completion) {
  // Opcodes of failed completions are not valid: the id tells the two queues apart.
  if ((completion.wr_id & kReceiveBit) != 0) {
    onReceived(completion);
  } else {
    onSent(completion);
  }
}

void Endpoint::onReceived(const ibv_wc& completion) {
  const std::uint64_t index = completion.wr_id & ~kReceiveBit;
  if (completion.status != IBV_WC_SUCCESS) return fail(errorOf(completion));
  const bool isMessage = completion.opcode == IBV_WC_RECV;
  const EndpointOptions& options = pair_->options();
  if (index >= options.receives || (isMessage && completion.byte_len > options.receiveBytes))
    return fail({ErrorCode::kInternal, "the RDMA device completed a receive that is unknown"});
  Message message;
  if (isMessage) message.bytes = pair_->received(index, completion.byte_len);
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0)
    message.immediate = be32toh(completion.imm_data);
  if (state_ != State::kFailed) onMessage_(message);
  if (state_ == State::kFailed) return;
  const Status posted = pair_->postReceive(static_cast<std::uint32_t>(index));
  if (!posted.ok()) fail(posted.error());
}

void Endpoint::onSent(const ibv_wc& completion) {
  const bool wasPumping = std::exchange(pumping_, true);
  bool isKnown = false;
  if (completion.status == IBV_WC_SUCCESS) {
    isKnown = inFlight_.succeed(completion.wr_id);
  } else {
    const Error error = errorOf(completion);
    isKnown = inFlight_.fail(completion.wr_id, error, completion.status == IBV_WC_WR_FLUSH_ERR);
    if (isKnown) fail(error);
  }
  if (!isKnown) fail({ErrorCode::kInternal, "the RDMA device completed a request that is unknown"});
  pumping_ = wasPumping;
  pump();
}

void Endpoint::fail(Error reason) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  failure_ = std::move(reason);
  if (pair_ != nullptr) {
    pair_->abort();
    // Requests that succeeded unsignalled are not flushed; the flush of a marker ends them.
    if (inFlight_.needsMarker()) static_cast<void>(postMarker());
  }
  inFlight_.settleAll(failure_);
  for (const std::unique_ptr<Transfer>& transfer : std::exchange(waiting_, {}))
    transfer->settle(failure_);
  if (onFailure_) onFailure_();
}

}  // namespace hearth
