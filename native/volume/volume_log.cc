#include "volume/volume_log.h"

#include <algorithm>
#include <utility>

#include "volume/log_names.h"

namespace hearth {

void VolumeLog::append(const tree::Record& record) {
  Pending pending{.number = record.number};
  tree::appendRecord(pending.bytes, record);
  pendingBytes_ += pending.bytes.size();
  pending_.push_back(std::move(pending));
}

bool VolumeLog::accepts() const {
  const bool stuck = !lastWrite_.ok() && !pending_.empty();
  return !stuck && pendingBytes_ < kMostPendingBytes && !needsCheckpoint() && hasRoom();
}

bool VolumeLog::hasRoom() const {
  // Each group that is written has a head.
  const std::uint64_t heads = (pendingBytes_ / kMaxGroupBytes + 2) * kGroupHeadBytes;
  const std::uint64_t wanted = pendingBytes_ + tree::kMaxRecordBytes + heads;
  return segments_.back().bytes + wanted <= fileBytes_;
}

Status VolumeLog::writeError() const {
  if (!pending_.empty() && !lastWrite_.ok()) return lastWrite_;
  return hasRoom() ? Status() : reserveError_;
}

Task<Status> VolumeLog::reserve() {
  if (hasRoom()) co_return Status();
  const Status before = lastWrite_;
  co_await beginWriting();
  co_await writeReserve();
  endWriting(before);
  co_return reserveError_;
}

Task<void> VolumeLog::writeReserve() {
  const std::uint64_t end = segments_.back().bytes + kReservedBytes;
  if (fileBytes_ >= end - kReservedBytes / 2) co_return;
  const std::vector<std::byte> zeros(end - fileBytes_);
  reserveError_ = co_await file_->writeAt(zeros, fileBytes_);
  if (reserveError_.ok()) fileBytes_ = end;
}

Task<Status> VolumeLog::cutReserve() {
  Status cut = co_await file_->truncate(segments_.back().bytes);
  if (cut.ok()) fileBytes_ = segments_.back().bytes;
  co_return cut;
}

bool VolumeLog::needsCheckpoint() const { return logBytes() >= kMostBytes || !syncError_.ok(); }

std::uint64_t VolumeLog::logBytes() const {
  std::uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

Task<void> VolumeLog::beginWriting() {
  while (writing_) co_await written_.wait();
  writing_ = true;
  written_.reset();
}

void VolumeLog::endWriting(Status result) {
  lastWrite_ = std::move(result);
  writing_ = false;
  written_.set();
}

Task<Status> VolumeLog::durable(std::uint64_t number) {
  while (number > durable_) {
    if (writing_) {
      co_await written_.wait();
      if (number > durable_ && !lastWrite_.ok()) co_return lastWrite_;
      continue;
    }
    if (pending_.empty() || number > pending_.back().number) {
      co_return Error{ErrorCode::kInvalidArgument,
                      "record " + std::to_string(number) + " was not appended to " + folder_};
    }
    co_await beginWriting();
    Status result = co_await writeGroup();
    if (result.ok()) co_await writeReserve();
    endWriting(result);
    if (!result.ok()) co_return result;
  }
  co_return Status();
}

Task<Status> VolumeLog::writeGroup() {
  Segment& segment = segments_.back();
  std::size_t records = 0, bytes = 0;
  for (const Pending& pending : pending_) {
    if (bytes >= kMaxGroupBytes) break;
    bytes += pending.bytes.size();
    ++records;
  }
  if (records == 0) co_return Status();
  // After an error the same records, or more, are written to the same place: nothing of the first
  // attempt lies behind them.
  std::vector<std::byte> group = encodeGroupHead(segment.bytes, segment.synced, bytes);
  group.reserve(group.size() + bytes);
  for (std::size_t i = 0; i < records; ++i) {
    group.insert(group.end(), pending_[i].bytes.begin(), pending_[i].bytes.end());
  }
  Status done = co_await file_->writeAt(group, segment.bytes);
  if (done.ok() && durability_ == LogDurability::kSynced) done = co_await file_->syncData();
  if (!done.ok()) co_return done;
  segment.bytes += group.size();
  fileBytes_ = std::max(fileBytes_, segment.bytes);
  durable_ = pending_[records - 1].number;
  if (durability_ == LogDurability::kSynced) {
    segment.synced = segment.bytes;
    synced_ = durable_;
  } else {
    beginSync();
  }
  pendingBytes_ -= bytes;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(records));
  co_return Status();
}

Task<Status> VolumeLog::syncWritten() {
  const Segment before = segments_.back();
  const std::uint64_t number = durable_;
  if (before.synced == before.bytes) co_return Status();
  // A checkpoint may begin another segment meanwhile, and remove this one.
  const std::shared_ptr<File> file = file_;
  Status done = co_await file->syncData();
  if (!done.ok()) {
    syncError_ = done.error().within("sync " + path(before.name));
    co_return syncError_;
  }
  for (Segment& segment : segments_) {
    if (segment.firstRecord == before.firstRecord) segment.synced = before.bytes;
  }
  synced_ = std::max(synced_, number);
  co_return Status();
}

void VolumeLog::beginSync() {
  if (std::exchange(syncDue_, true)) return;
  syncing_.spawn(syncInBackground());
}

Task<void> VolumeLog::syncInBackground() {
  co_await closing_.waitUntil(Clock::now() + kSyncAfter);
  syncDue_ = false;
  // An error stays in syncError_.
  (void)co_await syncWritten();
}

Task<Status> VolumeLog::close() {
  closing_.set();
  co_await syncing_.close();
  co_return co_await syncWritten();
}

// The segment has its name for good before a record is in it.
Task<Status> VolumeLog::beginSegment(std::uint64_t firstRecord) {
  const std::string name = segmentName(firstRecord), aside = name + std::string(kAside);
  auto opening =
      files_.open(path(aside), {.write = true, .create = true, .truncate = true, .mode = 0600});
  auto opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  SegmentHead head = identity_;
  head.firstRecord = firstRecord;
  const std::vector<std::byte> bytes = encodeSegmentHead(head);
  Status done = co_await (*opened)->writeAt(bytes, 0);
  if (done.ok()) done = co_await (*opened)->syncData();
  if (done.ok()) done = co_await files_.rename(path(aside), path(name));
  if (done.ok()) done = co_await files_.syncDirectory(folder_);
  if (!done.ok()) co_return done;
  file_ = std::move(*opened);
  segments_.push_back({name, firstRecord, bytes.size(), bytes.size()});
  fileBytes_ = bytes.size();
  co_return Status();
}

}  // namespace hearth
