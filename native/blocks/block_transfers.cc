#include "blocks/block_transfers.h"

#include <algorithm>

#include "blocks/block_file.h"

namespace hearth {

BlockTransfers::BlockTransfers(unsigned threads, bool direct) : direct_(direct) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

BlockTransfers::~BlockTransfers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Job& job : queue_) {
      end(*job.state, job.transfer,
          Error{ErrorCode::kCancelled, job.state->transfers[job.transfer].path +
                                           ": the store was closed before this transfer began"});
    }
    queue_.clear();
    hasWork_.notify_all();
  }
  threads_.clear();
}

BlockTransfers::Batch BlockTransfers::begin(Direction direction,
                                            std::vector<BlockTransfer> transfers) {
  auto state = std::make_shared<State>();
  state->direction = direction;
  state->transfers = std::move(transfers);
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
    Status status = job.state->direction == Direction::kLoad ? loadBlock(transfer, direct_)
                                                             : dumpBlock(transfer, direct_);
    lock.lock();
    end(*job.state, job.transfer, std::move(status));
  }
}

void BlockTransfers::end(State& state, std::size_t transfer, Status status) {
  if (!status) state.failures.push_back({transfer, status.error()});
  if (++state.ended == state.transfers.size()) hasEnded_.notify_all();
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
