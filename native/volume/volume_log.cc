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

void VolumeLog::append(std::uint64_t number, std::span<const std::byte> record) {
  pendingBytes_ += record.size();
  pending_.push_back({number, {record.begin(), record.end()}});
}

std::optional<VolumeLog::SegmentView> VolumeLog::segmentOf(std::uint64_t record) const {
  const auto behind = std::ranges::upper_bound(segments_, record, {}, &Segment::firstRecord);
  if (behind == segments_.begin()) return std::nullopt;
  const Segment& found = *std::prev(behind);
  return SegmentView{path(found.name), found.firstRecord, found.bytes, found.written};
}

std::vector<std::byte> VolumeLog::unwrittenFrom(std::uint64_t firstRecord,
                                                std::uint64_t offset) const {
  const Segment& segment = segments_.back();
  if (tail_ == nullptr || segment.firstRecord != firstRecord) return {};
  if (offset < segment.written || offset >= segment.bytes) return {};
  const auto groups = tail_->last(segment.bytes - offset);
  return {groups.begin(), groups.end()};
}

bool VolumeLog::accepts() const {
  return !isStuck() && pendingBytes_ < kMostPendingBytes && !needsCheckpoint() && hasRoom();
}

bool VolumeLog::hasRoom() const {
  // Each group that is written has a head.
  const std::uint64_t heads = (pendingBytes_ / kMaxGroupBytes + 2) * kGroupHeadBytes;
  const std::uint64_t wanted = pendingBytes_ + tree::kMaxRecordBytes + heads;
  return segments_.back().bytes + wanted <= fileBytes_;
}

Status VolumeLog::writeError() const {
  if (isStuck()) return lastWrite_;
  return hasRoom() ? Status() : reserveError_;
}

Task<Status> VolumeLog::reserve() {
  if (hasRoom() && !isStuck()) co_return Status();
  co_await beginWriting();
  const Status before = pending_.empty() ? Status() : lastWrite_;
  const Status written = co_await writeTail();
  if (written.ok()) co_await writeReserve();
  endWriting(written.ok() ? before : written);
  co_return written.ok() ? reserveError_ : written;
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

Task<void> VolumeLog::beginWriting(Use use) {
  while (use_ != Use::kNone) co_await written_.wait();
  use_ = use;
  written_.reset();
}

void VolumeLog::endWriting(Status result) {
  lastWrite_ = std::move(result);
  use_ = Use::kNone;
  if (tail_ != nullptr && isAllWritten()) {
    SegmentHead head = identity_;
    head.firstRecord = segments_.back().firstRecord;
    tail_->begin(head);
  }
  written_.set();
}

Task<Status> VolumeLog::durable(std::uint64_t number) {
  while (number > durable_) {
    if (pending_.empty() || number > pending_.back().number) {
      co_return Error{ErrorCode::kInvalidArgument,
                      "record " + std::to_string(number) + " was not appended to " + folder_};
    }
    if (copyGroup()) continue;
    if (use_ != Use::kNone) {
      co_await written_.wait();
      if (number > durable_ && !lastWrite_.ok()) co_return lastWrite_;
      continue;
    }
    co_await beginWriting();
    Status result = co_await writeTail();
    if (result.ok()) result = co_await writeGroup();
    if (result.ok()) co_await writeReserve();
    endWriting(result);
    if (!result.ok()) co_return result;
  }
  co_return Status();
}

VolumeLog::Group VolumeLog::nextGroup() const {
  Group group;
  for (const Pending& pending : pending_) {
    if (group.recordBytes >= kMaxGroupBytes) break;
    group.recordBytes += pending.bytes.size();
    ++group.records;
  }
  const Segment& segment = segments_.back();
  group.bytes = encodeGroupHead(segment.bytes, segment.synced, group.recordBytes);
  group.bytes.reserve(group.bytes.size() + group.recordBytes);
  for (std::size_t i = 0; i < group.records; ++i) {
    group.bytes.insert(group.bytes.end(), pending_[i].bytes.begin(), pending_[i].bytes.end());
  }
  return group;
}

void VolumeLog::took(const Group& group) {
  segments_.back().bytes += group.bytes.size();
  durable_ = pending_[group.records - 1].number;
  pendingBytes_ -= group.recordBytes;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(group.records));
}

Task<Status> VolumeLog::writeGroup() {
  // After an error the same records, or more, are written to the same place: nothing of the first
  // attempt lies behind them.
  const Group group = nextGroup();
  if (group.records == 0) co_return Status();
  Status done = co_await file_->writeAt(group.bytes, segments_.back().bytes);
  if (done.ok() && durability_ == LogDurability::kSynced) done = co_await file_->syncData();
  if (!done.ok()) co_return done;
  took(group);
  // A checkpoint has perhaps removed segments before it.
  Segment& segment = segments_.back();
  segment.written = segment.bytes;
  fileBytes_ = std::max(fileBytes_, segment.written);
  inFile_ = durable_;
  if (durability_ == LogDurability::kSynced) {
    segment.synced = segment.written;
    synced_ = inFile_;
  } else {
    beginSync();
  }
  co_return Status();
}

bool VolumeLog::copyGroup() {
  const std::size_t size = kGroupHeadBytes + pendingBytes_;
  if (tail_ == nullptr || use_ == Use::kAlone || size > tail_->room()) return false;
  // The disk is known to have room for what is answered.
  if (segments_.back().bytes + size > fileBytes_) return false;
  const Group group = nextGroup();
  tail_->append(group.bytes);
  took(group);
  if (tail_->room() < LogTail::kBytes / 2) writeDue_.set();
  if (!std::exchange(tailWriteDue_, true)) syncing_.spawn(writeTailInBackground());
  return true;
}

Task<Status> VolumeLog::writeTail() {
  const Segment before = segments_.back();
  const std::uint64_t number = durable_;
  if (before.bytes == before.written) co_return Status();
  const std::span<const std::byte> groups = tail_->last(before.bytes - before.written);
  Status done = co_await file_->writeAt(groups, before.written);
  if (!done.ok()) co_return done;
  segments_.back().written = before.bytes;
  fileBytes_ = std::max(fileBytes_, before.bytes);
  inFile_ = number;
  beginSync();
  co_return Status();
}

Task<void> VolumeLog::writeTailInBackground() {
  Clock::duration pause = writeAfter_;
  do {
    co_await writeDue_.waitUntil(Clock::now() + pause);
    tailWriteDue_ = false;
    co_await beginWriting(Use::kTail);
    writeDue_.reset();
    // Another call may have written it.
    Status result = isAllWritten() ? lastWrite_ : co_await writeTail();
    if (result.ok()) co_await writeReserve();
    endWriting(std::move(result));
    pause = kWriteAgainAfter;
  } while (!isAllWritten() && !closing_.isSet() && !std::exchange(tailWriteDue_, true));
}

Task<Status> VolumeLog::syncWritten() {
  const Segment before = segments_.back();
  const std::uint64_t number = inFile_;
  if (before.synced == before.written) co_return Status();
  // A checkpoint may begin another segment meanwhile, and remove this one.
  const std::shared_ptr<File> file = file_;
  Status done = co_await file->syncData();
  if (!done.ok()) {
    syncError_ = done.error().within("sync " + path(before.name));
    co_return syncError_;
  }
  for (Segment& segment : segments_) {
    if (segment.firstRecord == before.firstRecord) segment.synced = before.written;
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
  writeDue_.set();
  co_await syncing_.close();
  co_await beginWriting();
  Status written = co_await writeTail();
  endWriting(written);
  co_return written.ok() ? co_await syncWritten() : written;
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
  segments_.push_back({name, firstRecord, bytes.size(), bytes.size(), bytes.size()});
  fileBytes_ = bytes.size();
  co_return Status();
}

}  // namespace hearth
