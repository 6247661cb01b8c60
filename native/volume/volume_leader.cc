#include "volume/volume_leader.h"

namespace hearth {

Task<Result<std::unique_ptr<VolumeLeader>>> VolumeLeader::begin(Reactor& reactor, FileSystem& files,
                                                                Options options) {
  std::unique_ptr<VolumeLeader> leader(new VolumeLeader(reactor, std::move(options)));
  const Options& asked = leader->options_;
  auto log = co_await VolumeLog::open(reactor, files, asked.folder, asked.tree, leader->tree_);
  if (!log.ok()) co_return log.error();
  leader->log_ = std::move(*log);
  const auto record = leader->tree_.lead(asked.epoch, asked.now());
  if (!record.ok()) co_return record.error();
  leader->log_->append(*record);
  const Status written = co_await leader->log_->durable(record->number);
  if (!written.ok()) co_return written.error();
  co_return std::move(leader);
}

Status VolumeLeader::mayLead() const {
  if (!running_.closed() && options_.leads()) return {};
  return Error{ErrorCode::kUnavailable,
               options_.folder + ": this agent does not lead the volume, or not any more"};
}

Task<Status> VolumeLeader::admit() {
  if (!log_->accepts()) {
    // The obstacle may be gone.
    beginCheckpoint();
    const Status written = co_await log_->durable(tree_.lastRecord());
    if (!written.ok()) co_return written;
    if (!log_->accepts()) {
      const std::string full = options_.folder + ": the log of the volume is full";
      if (!checkpointed_.ok()) co_return checkpointed_.error().within(full);
      co_return Error{ErrorCode::kUnavailable, full + " until its checkpoint is written"};
    }
  }
  co_return mayLead();
}

Task<Result<tree::Answer>> VolumeLeader::change(tree::Request request) {
  if (const Status admitted = co_await admit(); !admitted.ok()) co_return admitted.error();
  request.nowNs = options_.now();
  co_return co_await finish(tree_.execute(request));
}

Task<Result<tree::Answer>> VolumeLeader::decide(tree::LeaderChange change) {
  if (const Status admitted = co_await admit(); !admitted.ok()) co_return admitted.error();
  co_return co_await finish(tree_.decide(change, options_.now()));
}

Task<Result<tree::Answer>> VolumeLeader::finish(tree::Namespace::Outcome outcome) {
  if (outcome.log) log_->append(*outcome.log);
  if (log_->logBytes() >= checkpointAt_) beginCheckpoint();
  const Status settled = co_await settle(outcome.record);
  if (!settled.ok()) co_return settled.error();
  co_return outcome.answer;
}

Task<Status> VolumeLeader::settle(std::uint64_t record) {
  Status written = co_await log_->durable(record);
  co_return written.ok() ? mayLead() : written;
}

void VolumeLeader::beginCheckpoint() {
  if (checkpointing_) return;
  checkpointing_ = true;
  running_.spawn(runCheckpoint());
}

Task<void> VolumeLeader::runCheckpoint() {
  checkpointed_ = co_await log_->checkpoint();
  // After an error not at each change again.
  const std::uint64_t step = options_.checkpointFromBytes;
  checkpointAt_ = checkpointed_.ok() ? step : log_->logBytes() + step / 8;
  checkpointing_ = false;
}

Task<void> VolumeLeader::close() { co_await running_.close(); }

}  // namespace hearth
