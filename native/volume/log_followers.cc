#include "volume/log_followers.h"

#include <algorithm>
#include <utility>

namespace hearth {

LogFollowers::LogFollowers(Reactor& reactor, const VolumeLog& log, tree::WideId volume,
                           LogPosition first, Ports ports)
    : reactor_(reactor),
      log_(log),
      volume_(volume),
      epoch_(first.epoch),
      ports_(std::move(ports)),
      list_(ports_.listed, first.record, Clock::now()),
      grown_(reactor),
      changed_(reactor),
      copies_(reactor) {
  setCandidates(ports_.listed);
}

void LogFollowers::setCandidates(const std::vector<std::string>& nodes) {
  list_.setCandidates(nodes);
  for (const std::string& node : nodes) {
    const bool isNew = !closed_ && errors_.try_emplace(node).second;
    if (isNew) copies_.spawn(copyTo(node));
  }
  changed_.set();
}

void LogFollowers::setListed(const std::vector<std::string>& nodes) {
  list_.setListed(nodes);
  changed_.set();
}

Task<std::vector<std::string>> LogFollowers::wanted(std::vector<std::string> known,
                                                    Clock::time_point deadline) {
  for (;;) {
    const Clock::time_point now = Clock::now();
    std::vector<std::string> list = list_.wanted(now);
    if (list != known || closed_ || now >= deadline) co_return list;
    changed_.reset();
    co_await changed_.waitUntil(std::min(deadline, list_.nextChange(now).value_or(deadline)));
  }
}

void LogFollowers::grew() {
  const std::uint64_t record = log_.durableRecord();
  const bool wasCommitted = list_.isCommitted();
  list_.setDurable(record, Clock::now());
  grown_.set();
  // A follower that stays behind is late from now on at another time.
  if (wasCommitted && !list_.isCommitted()) changed_.set();
}

Task<Status> LogFollowers::mayAnswer(bool change) {
  const Clock::time_point deadline = Clock::now() + kAnswerWait;
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (list_.hasBegun() && (!change || list_.isInTime(now))) co_return Status();
    if (closed_ || now >= deadline) {
      co_return Error{ErrorCode::kUnavailable,
                      "a follower of the volume's leader does not confirm the log"};
    }
    changed_.reset();
    co_await changed_.waitUntil(deadline);
  }
}

std::vector<LogFollowers::Row> LogFollowers::rows() const {
  std::vector<Row> rows;
  for (FollowerList::Row& row : list_.rows(Clock::now())) {
    const auto error = errors_.find(row.node);
    rows.push_back({std::move(row), error == errors_.end() ? std::string() : error->second});
  }
  return rows;
}

Task<bool> LogFollowers::drain(Clock::time_point deadline) {
  grew();
  while (!list_.isCommitted()) {
    if (closed_ || !ports_.leads() || Clock::now() >= deadline) co_return false;
    changed_.reset();
    co_await changed_.waitUntil(std::min(deadline, Clock::now() + kRetryPause));
  }
  co_return true;
}

Task<void> LogFollowers::close() {
  closed_ = true;
  grown_.set();
  changed_.set();
  co_await copies_.close();
}

bool LogFollowers::goesOn(const std::string& node) const {
  return !closed_ && list_.isCandidate(node);
}

Task<void> LogFollowers::copyTo(std::string node) {
  while (goesOn(node)) {
    Status copied;
    if (ports_.leads()) copied = co_await copyOnce(node);
    errors_[node] = copied.ok() ? std::string() : copied.error().message;
    if (!goesOn(node)) break;
    const Clock::time_point again = Clock::now() + kRetryPause;
    while (goesOn(node) && Clock::now() < again) {
      changed_.reset();
      co_await changed_.waitUntil(again);
    }
  }
  errors_.erase(node);
}

Task<Status> LogFollowers::copyOnce(const std::string& node) {
  const auto state = co_await ask(node, VolumeControl::kLogState, LogStateMessage{volume_, epoch_});
  // A damaged log begins anew.
  if (!state.ok() && state.code() != ErrorCode::kCorrupt) co_return state.error();
  LogReader reader(log_);
  const auto there = co_await follows(reader, state);
  if (!there.ok()) co_return there.error();
  if (*there) {
    confirm(node, state->last.record);
  } else {
    list_.setDiverged(node);
    changed_.set();
    // Its log, whatever it has, is kept until the store does not list it any more.
    if (list_.mayBeListed(node)) co_return Status();
    const LogPosition replaced = state.ok() ? state->last : LogPosition{};
    Status installed = co_await install(node, replaced, reader);
    if (!installed.ok()) co_return installed;
  }
  co_return co_await sendRecords(node, reader);
}

Task<Result<bool>> LogFollowers::follows(LogReader& reader, const Result<FollowerReply>& state) {
  if (!state.ok() || state->installing.record != 0) co_return false;
  auto there = co_await reader.seek(state->last);
  if (!there.ok() && there.code() == ErrorCode::kNotFound) co_return false;
  co_return there;
}

Task<Status> LogFollowers::install(const std::string& node, LogPosition replaced,
                                   LogReader& reader) {
  const LogPosition checkpoint = log_.checkpointed();
  // The reader keeps the records behind the checkpoint while it is sent.
  const auto there = co_await reader.seek(checkpoint);
  if (!there.ok()) co_return there.error();
  if (!*there) co_return Error{ErrorCode::kUnavailable, "the log has a new checkpoint"};
  LogInstallMessage message{
      .volume = volume_, .epoch = epoch_, .replaced = replaced, .checkpoint = checkpoint};
  std::unique_ptr<File> file;
  if (checkpoint.record != 0) {
    auto opened = co_await log_.openCheckpoint(checkpoint.record);
    if (!opened.ok()) co_return opened.error();
    file = std::move(*opened);
    const auto info = co_await file->info();
    if (!info.ok()) co_return info.error();
    message.size = info->size;
  }
  while (goesOn(node) && ports_.leads()) {
    message.piece.resize(std::min<std::uint64_t>(message.size - message.offset, kMaxLogPiece));
    if (file != nullptr) {
      const auto read = co_await file->readAt(message.piece, message.offset);
      if (!read.ok()) co_return read.error();
      message.piece.resize(*read);
    }
    const auto reply = co_await ask(node, VolumeControl::kLogInstall, message);
    if (!reply.ok()) co_return reply.error();
    if (reply->installing == LogPosition{} && reply->last == checkpoint) {
      confirm(node, checkpoint.record);
      co_return Status();
    }
    const bool isComing = reply->installing == checkpoint;
    if (!isComing) co_return Error{ErrorCode::kConflict, node + " begins its log anew otherwise"};
    message.offset = std::min(reply->installedBytes, message.size);
  }
  co_return Error{ErrorCode::kCancelled, "the checkpoint is not sent any more"};
}

Task<Status> LogFollowers::sendRecords(const std::string& node, LogReader& reader) {
  while (goesOn(node) && ports_.leads()) {
    auto batch = co_await reader.next(kMaxLogPiece);
    if (!batch.ok()) co_return batch.error();
    const bool wasIdle = batch->records.empty() && batch->last.record == log_.durableRecord();
    if (wasIdle) {
      grown_.reset();
      const bool more = co_await grown_.waitUntil(Clock::now() + kIdleTime);
      if (more) continue;
    }
    const bool isShort = batch->records.size() < kMaxLogPiece / 2;
    const auto reply =
        co_await ask(node, VolumeControl::kLogAppend,
                     LogAppendMessage{volume_, epoch_, batch->after, std::move(batch->records)});
    if (!reply.ok()) co_return reply.error();
    if (reply->outcome != LogOutcome::kTaken || reply->last != batch->last) {
      co_return Error{ErrorCode::kConflict, node + " has other records of the volume's log"};
    }
    confirm(node, batch->last.record);
    errors_[node].clear();
    if (isShort) co_await reactor_.sleep(kGatherTime);
  }
  co_return Status();
}

template <class Message>
Task<Result<FollowerReply>> LogFollowers::ask(std::string node, VolumeControl type,
                                              Message message) {
  const ControlMessage request{static_cast<std::uint16_t>(type), encode(message)};
  const auto answer = co_await ports_.call(std::move(node), request, Clock::now() + kCallTime);
  if (!answer.ok()) co_return answer.error();
  const auto reply = decodeFollowerReply(answer->body);
  if (!reply) {
    co_return Error{ErrorCode::kProtocolError, "an answer of a follower of the wrong shape"};
  }
  if (reply->outcome == LogOutcome::kLowerEpoch) {
    co_return Error{ErrorCode::kConflict,
                    "the follower knows of epoch " + std::to_string(reply->epoch) +
                        " of the volume, and this leader is of epoch " + std::to_string(epoch_)};
  }
  co_return *reply;
}

void LogFollowers::confirm(const std::string& node, std::uint64_t record) {
  list_.setConfirmed(node, record);
  changed_.set();
}

}  // namespace hearth
