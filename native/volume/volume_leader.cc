#include "volume/volume_leader.h"

#include <cerrno>

namespace hearth {
namespace {

// Some milliseconds.
constexpr std::uint32_t kLearnedInATurn = 16'384;
// Then their records are made durable, before more are written.
constexpr int kEvictedInARow = 256;
constexpr Clock::duration kRoomPause = std::chrono::milliseconds(5);

}  // namespace

Task<Result<std::unique_ptr<VolumeLeader>>> VolumeLeader::begin(Reactor& reactor, FileSystem& files,
                                                                Options options) {
  std::unique_ptr<VolumeLeader> leader(new VolumeLeader(reactor, std::move(options)));
  const Options& asked = leader->options_;
  auto log = co_await VolumeLog::open(reactor, files, asked.log, leader->tree_);
  if (!log.ok()) co_return log.error();
  leader->log_ = std::move(*log);
  const auto record = leader->tree_.lead(asked.epoch, asked.now());
  Status begun = record.ok() ? Status() : record.error();
  if (begun.ok()) {
    leader->log_->append(*record);
    leader->lastVisible_ = record->number;
    begun = co_await leader->log_->durable(record->number);
  }
  if (begun.ok()) {
    leader->followers_ =
        std::make_unique<LogFollowers>(reactor, *leader->log_, asked.log.tree.volume,
                                       LogPosition{asked.epoch, record->number}, asked.followers);
  }
  while (begun.ok() && leader->eviction_.learn(kLearnedInATurn)) {
    co_await reactor.sleep(Clock::duration::zero());
  }
  if (begun.ok()) co_return std::move(leader);
  (void)co_await leader->close();
  co_return begun.error();
}

Status VolumeLeader::mayLead() const {
  if (!running_.closed() && options_.leads()) return {};
  return Error{ErrorCode::kUnavailable,
               options_.log.folder + ": this agent does not lead the volume, or not any more"};
}

Task<Result<tree::Answer>> VolumeLeader::admit() {
  if (!log_->accepts()) {
    // The obstacle may be gone.
    if (log_->needsCheckpoint()) beginCheckpoint();
    Status written = co_await log_->durable(tree_.lastRecord());
    if (written.ok()) written = co_await log_->reserve();
    const Status& failed = !written.ok() ? written : log_->syncError();
    const Status& obstacle = failed.ok() ? checkpointed_ : failed;
    if (!log_->accepts() && !obstacle.ok()) {
      const bool full = obstacle.code() == ErrorCode::kOutOfSpace;
      co_return tree::Answer{.error = full ? ENOSPC : EIO, .refusal = tree::Refusal::kLogFails};
    }
    if (!log_->accepts()) {
      co_return Error{
          ErrorCode::kUnavailable,
          options_.log.folder + ": the log of the volume is full until its checkpoint is written"};
    }
  }
  if (const Status leading = mayLead(); !leading.ok()) co_return leading.error();
  co_return tree::Answer{};
}

Task<Result<ChangeReply>> VolumeLeader::change(tree::Request request) {
  const auto admitted = co_await admit();
  if (!admitted.ok()) co_return admitted.error();
  if (admitted->error != 0) co_return ChangeReply{.answer = *admitted};
  if (eviction_.isFullFor(request.change)) {
    const Status made = co_await makeRoom(request.change);
    if (!made.ok()) co_return made.error();
  }
  request.nowNs = options_.now();
  const bool endsOnly = std::holds_alternative<tree::EndSession>(request.change);
  co_return co_await finish(tree_.execute(request), endsOnly);
}

Task<Status> VolumeLeader::makeRoom(const tree::ClientChange& change) {
  const Clock::time_point until = Clock::now() + kRoomWait;
  int inRow = 0;
  while (eviction_.isFullFor(change)) {
    if (const auto file = eviction_.victim()) {
      if (!evict(*file)) break;
      if (++inRow % kEvictedInARow != 0) continue;
      (void)co_await log_->durable(tree_.lastRecord());
    } else {
      // A file that was just closed has a session until its agent has sealed it.
      if (eviction_.isEmpty() || Clock::now() > until) break;
      co_await reactor_.sleep(kRoomPause);
    }
    const auto admitted = co_await admit();
    if (!admitted.ok()) co_return admitted.error();
    if (admitted->error != 0) break;
  }
  co_return Status();
}

bool VolumeLeader::evict(tree::InodeId file) {
  const std::int64_t now = options_.now();
  const auto attributes = tree_.attributes(file);
  const auto outcome = tree_.decide(tree::Evict{file}, now);
  if (outcome.answer.error != 0) return false;
  append(outcome);
  ++evictions_.files;
  const bool isYoung =
      attributes && std::chrono::nanoseconds(now - attributes->inode.changedNs) < kYoung;
  if (isYoung) ++evictions_.youngFiles;
  return true;
}

Task<Result<tree::Answer>> VolumeLeader::decide(tree::LeaderChange change) {
  const auto admitted = co_await admit();
  if (!admitted.ok() || admitted->error != 0) co_return admitted;
  const auto done = co_await finish(tree_.decide(change, options_.now()), false);
  if (!done.ok()) co_return done.error();
  co_return done->answer;
}

Task<Result<ChangeReply>> VolumeLeader::finish(tree::Namespace::Outcome outcome, bool endsOnly) {
  const std::uint64_t visible = lastVisible_;
  append(outcome);
  if (endsOnly) lastVisible_ = visible;
  if (log_->logBytes() >= checkpointAt_) beginCheckpoint();
  ChangeReply reply{.answer = outcome.answer};
  std::uint64_t seen = outcome.record;
  if (outcome.answer.inode != tree::kNoInode) {
    reply.attributes = tree_.attributes(outcome.answer.inode);
    // Later records may have changed them since the first answer.
    if (outcome.repeated) seen = tree_.lastRecord();
  }
  const Status settled = co_await settle(seen, true);
  if (!settled.ok()) co_return settled.error();
  co_return reply;
}

void VolumeLeader::append(const tree::Namespace::Outcome& outcome) {
  if (!outcome.log) return;
  log_->append(*outcome.log);
  lastVisible_ = outcome.log->number;
  eviction_.changed(outcome.answer);
}

Task<Status> VolumeLeader::settle(std::uint64_t record, bool change) {
  Status settled = co_await log_->durable(record);
  if (!settled.ok()) co_return settled;
  followers_->grew();
  settled = co_await followers_->mayAnswer(change);
  co_return settled.ok() ? mayLead() : settled;
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

Task<Status> VolumeLeader::close() {
  if (followers_ != nullptr) {
    // In vain: those that lack records have until the next term.
    (void)co_await followers_->drain(Clock::now() + kDrainTime);
    co_await followers_->close();
  }
  co_await running_.close();
  co_return co_await log_->close();
}

}  // namespace hearth
