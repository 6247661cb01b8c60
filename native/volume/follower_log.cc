#include "volume/follower_log.h"

#include <algorithm>
#include <utility>

#include "namespace/record.h"
#include "volume/log_folder.h"
#include "volume/log_names.h"

namespace hearth {

FollowerReply FollowerLog::reply(LogOutcome outcome) const {
  FollowerReply reply{.outcome = outcome, .epoch = epoch_, .last = last_};
  if (installing_) {
    reply.installing = installing_->checkpoint;
    reply.installedBytes = installing_->bytes;
  }
  return reply;
}

Task<Status> FollowerLog::open() {
  if (log_ != nullptr || installing_) co_return Status();
  const auto there = co_await hasLogFolder(files_, options_.folder);
  if (!there.ok()) co_return there.error();
  last_ = {};
  if (!*there) co_return Status();
  PositionReplay replay;
  auto opened = co_await VolumeLog::open(reactor_, files_, options_, replay);
  if (!opened.ok()) co_return opened.error();
  log_ = std::move(*opened);
  checkpoints_ = std::make_unique<Gate>(reactor_);
  checkpointed_ = {};
  last_ = replay.last();
  epoch_ = std::max(epoch_, last_.epoch);
  co_return Status();
}

Task<Status> FollowerLog::close() {
  installing_.reset();
  if (log_ == nullptr) co_return Status();
  co_await checkpoints_->close();
  Status closed = co_await log_->close();
  log_.reset();
  co_return closed;
}

Task<Result<FollowerReply>> FollowerLog::state(LogStateMessage message) {
  if (Status opened = co_await open(); !opened.ok()) co_return opened.error();
  const bool isLower = message.epoch < epoch_;
  epoch_ = std::max(epoch_, message.epoch);
  co_return reply(isLower ? LogOutcome::kLowerEpoch : LogOutcome::kTaken);
}

Task<Result<FollowerReply>> FollowerLog::append(LogAppendMessage message) {
  if (Status opened = co_await open(); !opened.ok()) co_return opened.error();
  if (message.epoch < epoch_) co_return reply(LogOutcome::kLowerEpoch);
  epoch_ = message.epoch;
  if (installing_ || message.after != last_) co_return reply(LogOutcome::kDoesNotFollow);
  std::vector<std::span<const std::byte>> records;
  const auto end = endOfRecords(message.records, message.after, message.epoch, &records);
  if (!end) {
    co_return Error{ErrorCode::kCorrupt, "the records behind record " +
                                             std::to_string(message.after.record) +
                                             " that the leader of the volume sent are damaged"};
  }
  if (!records.empty()) {
    Status written = co_await write(std::move(records), *end);
    if (!written.ok()) {
      // The next call reads as many of the records as were written.
      (void)co_await close();
      co_return written.error();
    }
  }
  co_return reply(LogOutcome::kTaken);
}

Task<Status> FollowerLog::write(std::vector<std::span<const std::byte>> records, LogPosition last) {
  if (log_ == nullptr) {
    Status made = co_await makeLogFolder(files_, options_.folder);
    if (made.ok()) made = co_await open();
    if (!made.ok()) co_return made;
  }
  if (Status admitted = co_await admit(); !admitted.ok()) co_return admitted;
  std::uint64_t number = last_.record;
  for (const std::span<const std::byte> record : records) log_->append(++number, record);
  Status written = co_await log_->durable(last.record);
  if (written.ok()) last_ = last;
  co_return written;
}

Task<Status> FollowerLog::admit() {
  // After a failure not at each append again.
  const bool isLarge = checkpointed_.ok() && log_->logBytes() >= VolumeLog::kCheckpointFromBytes;
  const bool isDue = isLarge || log_->needsCheckpoint();
  if (isDue && !std::exchange(checkpointing_, true)) checkpoints_->spawn(checkpoint());
  if (log_->accepts()) co_return Status();
  Status reserved = co_await log_->reserve();
  if (!reserved.ok()) co_return reserved;
  if (log_->accepts()) co_return Status();
  if (!checkpointed_.ok()) co_return checkpointed_;
  co_return Error{ErrorCode::kUnavailable,
                  options_.folder +
                      ": the log of the volume is full until its checkpoint is "
                      "written"};
}

Task<void> FollowerLog::checkpoint() {
  checkpointed_ = co_await log_->checkpoint();
  checkpointing_ = false;
}

std::string FollowerLog::asideOf(LogPosition checkpoint) const {
  return options_.folder + "/" + checkpointName(checkpoint.record) + std::string(kAside);
}

Task<Result<FollowerReply>> FollowerLog::install(LogInstallMessage message) {
  const Status opened = co_await open();
  if (!opened.ok() && opened.code() != ErrorCode::kCorrupt) co_return opened.error();
  if (message.epoch < epoch_) co_return reply(LogOutcome::kLowerEpoch);
  epoch_ = message.epoch;
  const bool isNew = !installing_ || installing_->checkpoint != message.checkpoint ||
                     installing_->size != message.size;
  if (isNew) {
    const bool isLate = opened.ok() && message.replaced != last_;
    if (isLate || message.offset != 0) co_return reply(LogOutcome::kDoesNotFollow);
    if (Status begun = co_await beginInstallation(message); !begun.ok()) co_return begun.error();
  }
  // A piece that came before; the answer says how far it is.
  if (installing_ && message.offset == installing_->bytes) {
    Status done = co_await installPiece(std::move(message.piece));
    if (done.ok() && installing_->bytes == installing_->size) done = co_await finishInstallation();
    if (!done.ok()) {
      installing_.reset();
      co_return done.error();
    }
  }
  co_return reply(LogOutcome::kTaken);
}

Task<Status> FollowerLog::beginInstallation(const LogInstallMessage& message) {
  const LogPosition checkpoint = message.checkpoint;
  const std::uint64_t size = message.size;
  // Its end does not matter: the files go.
  (void)co_await close();
  Status done = co_await makeLogFolder(files_, options_.folder);
  if (done.ok()) {
    done = co_await emptyLogFolder(files_, {reactor_, options_.background}, options_.folder,
                                   options_.tail);
  }
  last_ = {};
  if (!done.ok()) co_return done;
  if (checkpoint.record == 0) co_return co_await open();
  auto file = co_await files_.open(asideOf(checkpoint),
                                   {.write = true, .create = true, .truncate = true, .mode = 0600});
  if (!file.ok()) co_return file.error();
  installing_ = std::make_unique<Installation>();
  installing_->checkpoint = checkpoint;
  installing_->size = size;
  installing_->file = std::move(*file);
  co_return Status();
}

Task<Status> FollowerLog::installPiece(std::vector<std::byte> piece) {
  using Step = tree::CheckpointReader::Step;
  Installation& into = *installing_;
  const Step step = co_await Background{reactor_, options_.background}.run([&into, &piece] {
    into.reader.feed(piece);
    Step next = Step::kItem;
    while (next == Step::kItem) next = into.reader.next();
    return next;
  });
  const bool isLast = into.bytes + piece.size() == into.size;
  const bool isWhole = step == Step::kEnd && isLast &&
                       into.reader.head().epoch == into.checkpoint.epoch &&
                       into.reader.head().lastRecord == into.checkpoint.record;
  if (step == Step::kLater) {
    co_return Error{ErrorCode::kUnsupported,
                    "a later release of Hearth wrote the checkpoint that the leader of the volume "
                    "sends; upgrade this agent"};
  }
  if (isLast ? !isWhole : step != Step::kMore) {
    co_return Error{ErrorCode::kCorrupt,
                    "the checkpoint that the leader of the volume sent is damaged"};
  }
  Status written = co_await into.file->writeAt(piece, into.bytes);
  if (written.ok()) into.bytes += piece.size();
  co_return written;
}

Task<Status> FollowerLog::finishInstallation() {
  const LogPosition checkpoint = installing_->checkpoint;
  const std::string aside = asideOf(checkpoint);
  Status done = co_await installing_->file->syncData();
  if (done.ok()) {
    done = co_await files_.rename(aside, aside.substr(0, aside.size() - kAside.size()));
  }
  installing_.reset();
  if (done.ok()) done = co_await files_.syncDirectory(options_.folder);
  if (done.ok()) done = co_await open();
  if (!done.ok() || last_ == checkpoint) co_return done;
  co_return Error{ErrorCode::kCorrupt, options_.folder + " has another checkpoint than was sent"};
}

}  // namespace hearth
