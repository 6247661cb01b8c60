#include "blocks/block_transfers.h"

#include <algorithm>

#include "blocks/block_file.h"
#include "blocks/device_blocks.h"

namespace hearth {

Result<std::unique_ptr<BlockTransfers>> BlockTransfers::open(const Options& options) {
  std::shared_ptr<DeviceBlocks> device;
  if (options.device) {
    auto opened = DeviceBlocks::open(options.device, options.threads, options.direct);
    if (!opened) return opened.error();
    device = std::move(*opened);
  }
  return std::unique_ptr<BlockTransfers>(new BlockTransfers(options, std::move(device)));
}

BlockTransfers::BlockTransfers(const Options& options, std::shared_ptr<DeviceBlocks> device)
    : direct_(options.direct), device_(std::move(device)) {
  for (unsigned i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
}

BlockTransfers::~BlockTransfers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Job& job : queue_) cancelJob(job, "the store was closed");
    queue_.clear();
    hasWork_.notify_all();
  }
  threads_.clear();
}

Status BlockTransfers::enroll(std::uint64_t address, std::uint64_t bytes) {
  if (device_) return device_->enroll(address, bytes);
  return Error{ErrorCode::kUnsupported, "these transfers have no GPU whose memory to enroll"};
}

BlockTransfers::Batch BlockTransfers::begin(Direction direction,
                                            std::vector<BlockTransfer> transfers,
                                            std::uint64_t event) {
  auto state = std::make_shared<State>();
  state->direction = direction;
  state->transfers = std::move(transfers);
  state->event = event;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < state->transfers.size(); ++i) queue_.push_back({state, i});
  hasWork_.notify_all();
  batches_.emplace(++last_, std::move(state));
  return last_;
}

void BlockTransfers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    hasWork_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const Job job = queue_.front();
    queue_.pop_front();
    lock.unlock();
    const BlockTransfer& transfer = job.state->transfers[job.transfer];
    Status status = move(*job.state, transfer);
    lock.lock();
    end(*job.state, job.transfer, std::move(status));
  }
}

Status BlockTransfers::move(const State& state, const BlockTransfer& transfer) const {
  const bool isLoad = state.direction == Direction::kLoad;
  if (!transfer.isOnDevice) {
    return isLoad ? loadBlock(transfer, direct_) : dumpBlock(transfer, direct_);
  }
  if (!device_) {
    return Error{ErrorCode::kUnsupported,
                 transfer.path + ": its memory is a GPU's, and these transfers have none"};
  }
  if (state.event != 0) {
    if (Status reached = device_->waitFor(state.event); !reached) return reached;
  }
  return isLoad ? device_->load(transfer) : device_->dump(transfer);
}

void BlockTransfers::end(State& state, std::size_t transfer, Status status) {
  if (!status) state.failures.push_back({transfer, status.error()});
  if (++state.ended == state.transfers.size()) hasEnded_.notify_all();
}

void BlockTransfers::cancelJob(const Job& job, const char* reason) {
  end(*job.state, job.transfer,
      Error{ErrorCode::kCancelled, job.state->transfers[job.transfer].path + ": " + reason +
                                       " before this transfer began"});
}

Status BlockTransfers::cancel(Batch batch) {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(batch);
  if (found == batches_.end()) return Error{ErrorCode::kNotFound, "no such batch of transfers"};
  std::erase_if(queue_, [&](const Job& job) {
    const bool isOfBatch = job.state == found->second;
    if (isOfBatch) cancelJob(job, "its batch was cancelled");
    return isOfBatch;
  });
  return {};
}

Result<bool> BlockTransfers::isDone(Batch batch) const {
  const std::lock_guard lock(mutex_);
  const auto found = batches_.find(batch);
  if (found == batches_.end()) return Error{ErrorCode::kNotFound, "no such batch of transfers"};
  return found->second->ended == found->second->transfers.size();
}

Result<std::vector<BlockFailure>> BlockTransfers::wait(Batch batch,
                                                       std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto found = batches_.find(batch);
  if (found == batches_.end()) return Error{ErrorCode::kNotFound, "no such batch of transfers"};
  const std::shared_ptr<State> state = found->second;
  const auto hasEnded = [&] { return state->ended == state->transfers.size(); };
  if (!hasEnded_.wait_for(lock, timeout, hasEnded)) {
    return Error{ErrorCode::kDeadlineExceeded,
                 std::to_string(state->transfers.size() - state->ended) + " of " +
                     std::to_string(state->transfers.size()) +
                     " transfers have not ended; their storage hangs or is slow"};
  }
  batches_.erase(batch);
  std::ranges::sort(state->failures, {}, &BlockFailure::transfer);
  return std::move(state->failures);
}

}  // namespace hearth
