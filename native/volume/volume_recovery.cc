#include <algorithm>
#include <utility>

#include "volume/log_names.h"
#include "volume/volume_log.h"

namespace hearth {
namespace {

constexpr std::size_t kLoadBytes = std::size_t{1} << 20;

}  // namespace

Task<Result<std::unique_ptr<VolumeLog>>> VolumeLog::open(Reactor& reactor, FileSystem& files,
                                                         Options options, tree::Namespace& tree) {
  TreeReplay replay(tree);
  co_return co_await open(reactor, files, std::move(options), replay);
}

Task<Result<std::unique_ptr<VolumeLog>>> VolumeLog::open(Reactor& reactor, FileSystem& files,
                                                         Options options, LogReplay& into) {
  std::unique_ptr<VolumeLog> log(new VolumeLog(reactor, files, options));
  log->written_.set();
  const Status recovered = co_await log->recover(into);
  if (recovered.ok()) co_return std::move(log);
  // A sync may be due of records that came from the tail.
  log->closing_.set();
  co_await log->syncing_.close();
  co_return recovered.error();
}

Task<Status> VolumeLog::recover(LogReplay& into) {
  auto listed = co_await files_.list(folder_, ListDetail::kKinds);
  if (!listed.ok()) co_return listed.error();
  std::vector<std::string> gone;
  std::vector<Segment> found;
  for (const DirectoryEntry& entry : *listed) {
    if (const auto last = numberIn(entry.name, kCheckpointPrefix)) {
      checkpointed_ = std::max(checkpointed_, *last);
    } else if (const auto first = numberIn(entry.name, kSegmentPrefix)) {
      found.push_back({entry.name, *first, 0, 0, 0});
    } else if (entry.name.ends_with(kAside)) {
      gone.push_back(entry.name);
    }
  }
  for (const DirectoryEntry& entry : *listed) {
    const auto last = numberIn(entry.name, kCheckpointPrefix);
    if (last && *last != checkpointed_) gone.push_back(entry.name);
  }
  if (const Status opened = co_await openTail(); !opened.ok()) co_return opened;
  if (const Status loaded = co_await loadCheckpoint(into); !loaded.ok()) co_return loaded;
  std::ranges::sort(found, {}, &Segment::firstRecord);
  for (std::size_t i = 0; i < found.size(); ++i) {
    // The checkpoint has all of it.
    if (i + 1 < found.size() && found[i + 1].firstRecord <= checkpointed_ + 1) {
      gone.push_back(found[i].name);
      continue;
    }
    const Status replayed = co_await replay(into, found[i]);
    if (!replayed.ok()) co_return replayed;
    if (found[i].bytes == 0) {
      gone.push_back(found[i].name);
    } else {
      segments_.push_back(found[i]);
    }
  }
  durable_ = into.last().record;
  inFile_ = durable_;
  synced_ = durable_;
  if (!into.isOf(identity_.store, identity_.volume)) {
    co_return Error{ErrorCode::kConflict, folder_ + " has the log of another store or volume"};
  }
  // After a kill the folder may not have been synced; files that are believed now keep their names.
  Status done = co_await files_.syncDirectory(folder_);
  if (done.ok()) done = co_await removeFiles(std::move(gone));
  if (done.ok() && segments_.empty()) done = co_await beginSegment(durable_ + 1);
  if (done.ok() && tail_ != nullptr) done = co_await recoverTail(into);
  if (!done.ok()) co_return done;
  if (tail_ == nullptr && !tailPath_.empty()) {
    auto made = co_await helpers_.run([path = tailPath_] { return LogTail::make(path); });
    if (made.ok()) tail_ = std::move(*made);
    if (!made.ok()) tailError_ = made.error();
  }
  endWriting(Status());
  co_return Status();
}

Task<Status> VolumeLog::openTail() {
  if (tailPath_.empty()) co_return Status();
  auto found = co_await helpers_.run([path = tailPath_] { return LogTail::find(path); });
  if (!found.ok()) co_return found.error().within("the last changes of the volume");
  tail_ = std::move(*found);
  co_return Status();
}

Task<Status> VolumeLog::recoverTail(LogReplay& into) {
  const auto left = tail_->left();
  if (!left || left->segment.store != identity_.store || left->segment.volume != identity_.volume) {
    co_return Status();
  }
  const auto segment =
      std::ranges::find(segments_, left->segment.firstRecord, &Segment::firstRecord);
  if (segment == segments_.end()) co_return Status();
  const auto same = co_await hasSameBytes(*segment, *left);
  if (!same.ok()) co_return same.error();
  if (!*same) co_return Status();
  const auto rest = left->bytes.subspan(segment->bytes - left->offset);
  // Behind a segment that another one follows stand numbers that the log has: takeGroups stops.
  SegmentReport report{.goodBytes = segment->bytes, .lastRecord = into.last().record};
  const auto take = [this, &into](std::span<const std::byte> bytes) -> Status {
    if (Status applied = into.apply(bytes); !applied.ok()) return applied;
    append(into.last().record, bytes);
    return {};
  };
  Status done = co_await helpers_.run([&] { return takeGroups(rest, report, take, tailPath_); });
  if (done.ok()) done = co_await writeGroup();
  co_return done.ok() ? co_await syncWritten() : done;
}

// The groups with which a tail of this log begins are those that end the segment. Else another
// release, which knows no tails, has continued the log.
Task<Result<bool>> VolumeLog::hasSameBytes(const Segment& segment, LogTail::Left left) {
  if (left.offset > segment.bytes || segment.bytes - left.offset > left.bytes.size()) {
    co_return false;
  }
  std::vector<std::byte> bytes(segment.bytes - left.offset);
  auto opened = co_await files_.open(path(segment.name), {});
  if (!opened.ok()) co_return opened.error();
  const auto read = co_await (*opened)->readAt(bytes, left.offset);
  if (!read.ok()) co_return read.error();
  co_return *read == bytes.size() && std::ranges::equal(bytes, left.bytes.first(bytes.size()));
}

Task<Status> VolumeLog::loadCheckpoint(LogReplay& into) {
  if (checkpointed_ == 0) co_return Status();
  const std::string from = path(checkpointName(checkpointed_));
  auto file = co_await files_.open(from, {});
  if (!file.ok()) co_return file.error();
  tree::CheckpointReader reader;
  const auto load = [&reader, &into]() -> Result<tree::CheckpointReader::Step> {
    for (;;) {
      const auto step = reader.next();
      if (step != tree::CheckpointReader::Step::kItem) return step;
      if (Status loaded = into.load(reader.item()); !loaded.ok()) return loaded.error();
    }
  };
  std::vector<std::byte> bytes(kLoadBytes);
  for (std::uint64_t at = 0;;) {
    const auto loaded = co_await helpers_.run(load);
    if (!loaded.ok()) co_return loaded.error();
    const auto step = *loaded;
    if (step == tree::CheckpointReader::Step::kMore) {
      const auto read = co_await (*file)->readAt(bytes, at);
      if (!read.ok()) co_return read.error();
      if (*read == 0) break;
      reader.feed(std::span(bytes).first(*read));
      at += *read;
    } else if (step == tree::CheckpointReader::Step::kLater) {
      co_return Error{ErrorCode::kUnsupported, from + " was written by a later release of Hearth"};
    } else if (step == tree::CheckpointReader::Step::kEnd &&
               reader.head().lastRecord == checkpointed_) {
      checkpointEpoch_ = reader.head().epoch;
      co_return into.loaded(reader.head());
    } else {
      break;
    }
  }
  // It was whole before it got its name.
  co_return Error{ErrorCode::kCorrupt, from + " is damaged: its disk returns wrong bytes"};
}

// Sets the segment's bytes; 0: it has nothing, and goes.
Task<Status> VolumeLog::replay(LogReplay& into, Segment& segment) {
  const std::string from = path(segment.name);
  auto opened = co_await files_.open(from, {.write = true});
  if (!opened.ok()) co_return opened.error();
  const auto apply = [&into](std::span<const std::byte> bytes) -> Status {
    // The checkpoint has it.
    const bool known = tree::parseRawRecord(bytes).number <= into.last().record;
    return known ? Status() : into.apply(bytes);
  };
  const auto report = co_await readSegment(helpers_, **opened, from, apply);
  if (!report.ok()) co_return report.error();
  if (!report->head || report->head->firstRecord != segment.firstRecord) {
    // It was whole before it got its name.
    co_return Error{ErrorCode::kCorrupt,
                    from + " has a damaged head: its disk returns wrong bytes"};
  }
  const SegmentHead& head = *report->head;
  if (head.store != identity_.store || head.volume != identity_.volume) {
    co_return Error{ErrorCode::kConflict, from + " is of another store or volume"};
  }
  const bool empty = report->goodBytes == kSegmentHeadBytes;
  if (segment.firstRecord > into.last().record + 1 || report->lastRecord > into.last().record) {
    co_return Error{ErrorCode::kCorrupt, from +
                                             " does not follow the records before it: its disk "
                                             "returns wrong bytes"};
  }
  // It was begun and not used, since the folder could not be synced.
  if (empty && segment.firstRecord <= into.last().record) co_return Status();
  Status kept;
  if (report->torn) kept = co_await (*opened)->truncate(report->goodBytes);
  // Bytes that were cut off do not come back behind the next records, and records that were read
  // stay: after a kill, the last group may not have been synced.
  if (kept.ok()) kept = co_await (*opened)->syncData();
  if (!kept.ok()) co_return kept;
  segment.bytes = report->goodBytes;
  segment.written = segment.bytes;
  segment.synced = segment.bytes;
  fileBytes_ = segment.bytes;
  file_ = std::move(*opened);
  co_return Status();
}

Task<Status> VolumeLog::removeFiles(std::vector<std::string> names) {
  for (const std::string& name : names) {
    Status removed = co_await files_.unlink(path(name));
    if (!removed.ok() && removed.code() != ErrorCode::kNotFound) co_return removed;
  }
  co_return Status();
}

}  // namespace hearth
