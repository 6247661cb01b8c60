#include "volume/log_reader.h"

#include <algorithm>
#include <utility>

#include "namespace/record.h"

namespace hearth {

Task<Result<bool>> LogReader::seek(LogPosition at) {
  queue_.clear();
  if (at.record > log_.durableRecord()) co_return false;
  const LogPosition checkpointed = log_.checkpointed();
  const bool behindCheckpoint = at == checkpointed;
  if (at.record < checkpointed.record) co_return false;
  if (at.record == checkpointed.record && !behindCheckpoint) co_return false;
  const auto segment = log_.segmentOf(behindCheckpoint ? at.record + 1 : at.record);
  if (!segment) co_return false;
  seeking_ = at.record;
  at_ = behindCheckpoint ? at : LogPosition{};
  const auto opened = co_await open(segment->firstRecord);
  if (!opened.ok() || !*opened) co_return opened;
  while (report_.lastRecord < at.record) {
    const auto more = co_await fill();
    if (!more.ok() || !*more) co_return more;
  }
  co_return at_ == at;
}

Task<Result<bool>> LogReader::open(std::uint64_t firstRecord) {
  const auto segment = log_.segmentOf(firstRecord);
  if (!segment || segment->firstRecord != firstRecord) co_return false;
  auto opened = co_await log_.files().open(segment->path, {});
  if (!opened.ok() && opened.code() == ErrorCode::kNotFound) co_return false;
  if (!opened.ok()) co_return opened.error();
  file_ = std::move(*opened);
  path_ = segment->path;
  firstRecord_ = firstRecord;
  report_ = {.goodBytes = kSegmentHeadBytes, .lastRecord = firstRecord - 1};
  co_return true;
}

Task<Result<std::vector<std::byte>>> LogReader::read() {
  const auto segment = log_.segmentOf(firstRecord_);
  const bool isThere = segment && segment->firstRecord == firstRecord_;
  std::uint64_t end = 0;
  if (isThere) {
    if (report_.goodBytes >= segment->written)
      co_return log_.unwrittenFrom(firstRecord_, report_.goodBytes);
    end = segment->written;
  } else {
    // A checkpoint has removed the segment, after its reserve was cut off.
    const auto info = co_await file_->info();
    if (!info.ok()) co_return info.error();
    end = info->size;
  }
  std::vector<std::byte> bytes(
      std::min<std::uint64_t>(end - std::min(end, report_.goodBytes), kMostGroupBytes));
  if (bytes.empty()) co_return bytes;
  const auto count = co_await file_->readAt(bytes, report_.goodBytes);
  if (!count.ok()) co_return count.error();
  bytes.resize(*count);
  co_return bytes;
}

Task<Result<bool>> LogReader::fill() {
  const auto bytes = co_await read();
  if (!bytes.ok()) co_return bytes.error();
  if (bytes->empty()) {
    const std::uint64_t next = report_.lastRecord + 1;
    if (next != firstRecord_) {
      const auto opened = co_await open(next);
      if (!opened.ok() || *opened) co_return opened;
    }
    const auto segment = log_.segmentOf(firstRecord_);
    if (segment && segment->firstRecord == firstRecord_) co_return false;
    co_return Error{ErrorCode::kNotFound, path_ + " was replaced by a checkpoint"};
  }
  const auto take = [this](std::span<const std::byte> record) -> Status {
    const tree::RawRecord raw = tree::parseRawRecord(record);
    const LogPosition position{raw.epoch, raw.number};
    if (raw.number > seeking_) {
      queue_.push_back({position, {record.begin(), record.end()}});
    } else {
      at_ = position;
    }
    return {};
  };
  const std::uint64_t before = report_.goodBytes;
  const Status taken =
      co_await log_.background().run([&] { return takeGroups(*bytes, report_, take, path_); });
  if (!taken.ok()) co_return taken.error();
  if (report_.goodBytes != before) co_return true;
  co_return Error{ErrorCode::kCorrupt,
                  path_ +
                      " does not give the bytes back that were written: its disk returns wrong "
                      "bytes"};
}

Task<Result<LogReader::Batch>> LogReader::next(std::size_t maxBytes) {
  if (queue_.empty()) {
    // The first call may only go on to the next segment.
    auto more = co_await fill();
    if (more.ok() && *more && queue_.empty()) more = co_await fill();
    if (!more.ok()) co_return more.error();
  }
  Batch batch{.after = at_, .last = at_, .records = {}};
  while (!queue_.empty() && batch.records.size() + queue_.front().bytes.size() <= maxBytes) {
    const Queued& next = queue_.front();
    batch.records.insert(batch.records.end(), next.bytes.begin(), next.bytes.end());
    batch.last = next.position;
    queue_.pop_front();
  }
  at_ = batch.last;
  co_return std::move(batch);
}

}  // namespace hearth
