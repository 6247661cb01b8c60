#include <algorithm>
#include <memory>
#include <utility>

#include "volume/log_names.h"
#include "volume/volume_log.h"

namespace hearth {
namespace {

constexpr std::size_t kMergeBytes = std::size_t{1} << 20;

}  // namespace

Task<Status> VolumeLog::checkpoint() {
  if (checkpointing_) {
    co_return Error{ErrorCode::kInUse, folder_ + " is being checkpointed"};
  }
  checkpointing_ = true;
  const Status done = co_await replaceSegments();
  checkpointing_ = false;
  co_return done;
}

Task<Result<std::unique_ptr<File>>> VolumeLog::openCheckpoint(std::uint64_t record) const {
  co_return co_await files_.open(path(checkpointName(record)), {});
}

Task<Status> VolumeLog::replaceSegments() {
  // Most of what is written, so that records wait for a short sync only.
  if (Status synced = co_await syncWritten(); !synced.ok()) co_return synced;
  co_await beginWriting();
  std::vector<std::string> segments;
  for (const Segment& segment : segments_) segments.push_back(segment.name);
  Status written = co_await writeTail();
  if (written.ok()) written = co_await writeGroup();
  // No segment follows one that a crash may cut.
  Status done = written.ok() ? co_await syncWritten() : written;
  if (done.ok()) done = co_await cutReserve();
  // Records from here on are in another segment.
  const std::uint64_t number = durable_;
  const bool nothing = number == checkpointed_;
  if (done.ok() && !nothing) done = co_await beginSegment(number + 1);
  if (done.ok()) co_await writeReserve();
  endWriting(written);
  const bool doubtful = !syncError_.ok();
  if (done.ok() && !nothing) done = co_await mergeUpTo(number, std::move(segments));
  // The checkpoint has what could not be synced, and nothing was accepted since.
  if (done.ok() && doubtful) syncError_ = {};
  co_return done;
}

Task<Status> VolumeLog::mergeUpTo(std::uint64_t number, std::vector<std::string> segments) {
  auto since = co_await recordsIn(segments);
  if (!since.ok()) co_return since.error();
  const std::uint64_t epoch = since->last().epoch;
  const std::string name = checkpointName(number), aside = name + std::string(kAside);
  auto opening =
      files_.open(path(aside), {.write = true, .create = true, .truncate = true, .mode = 0600});
  auto opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  Status done = co_await writeMerged(**opened, std::move(*since));
  if (done.ok()) done = co_await (*opened)->syncData();
  if (done.ok()) done = co_await files_.rename(path(aside), path(name));
  // The files that it replaces go when it has its name for good.
  if (done.ok()) done = co_await files_.syncDirectory(folder_);
  if (!done.ok()) co_return done;
  if (checkpointed_ != 0) segments.push_back(checkpointName(checkpointed_));
  checkpointed_ = number;
  checkpointEpoch_ = epoch;
  std::erase_if(segments_, [&](const Segment& segment) { return segment.firstRecord <= number; });
  co_return co_await removeFiles(std::move(segments));
}

Task<Result<tree::RecordsSince>> VolumeLog::recordsIn(std::vector<std::string> segments) {
  tree::RecordsSince since;
  const std::uint64_t checkpointed = checkpointed_;
  const auto add = [&since, checkpointed](std::span<const std::byte> bytes) -> Status {
    const tree::RawRecord record = tree::parseRawRecord(bytes);
    return record.number <= checkpointed ? Status() : since.add(record);
  };
  for (const std::string& name : segments) {
    auto opened = co_await files_.open(path(name), {});
    if (!opened.ok()) co_return opened.error();
    const auto report = co_await readSegment(background_, **opened, path(name), add);
    if (!report.ok()) co_return report.error();
  }
  co_return std::move(since);
}

Task<Status> VolumeLog::writeMerged(File& into, tree::RecordsSince since) {
  using Step = tree::CheckpointReader::Step;
  tree::Bytes merged;
  auto merge = std::make_unique<tree::CheckpointMerge>(std::move(since), merged);
  std::uint64_t at = 0;
  Step step = Step::kMore;
  Status done;
  if (checkpointed_ == 0) {
    step = co_await background_.run([&merge] { return merge->finishWithoutOld(); });
    if (step == Step::kEnd) done = co_await appendTo(into, merged, at);
  } else {
    auto old = co_await files_.open(path(checkpointName(checkpointed_)), {});
    if (!old.ok()) co_return old.error();
    std::vector<std::byte> bytes(kMergeBytes);
    for (std::uint64_t from = 0; step == Step::kMore && done.ok();) {
      const auto read = co_await (*old)->readAt(bytes, from);
      if (!read.ok()) co_return read.error();
      if (*read == 0) break;
      from += *read;
      const auto piece = std::span<const std::byte>(bytes).first(*read);
      step = co_await background_.run([&merge, piece] { return merge->feed(piece); });
      done = co_await appendTo(into, merged, at);
      merged.clear();
    }
  }
  // It may have a million strings.
  co_await background_.run([&merge] {
    merge.reset();
    return true;
  });
  if (!done.ok() || step == Step::kEnd) co_return done;
  co_return Error{ErrorCode::kCorrupt, path(checkpointName(checkpointed_)) +
                                           " and the records since do not fit together"};
}

Task<Status> VolumeLog::appendTo(File& into, std::span<const std::byte> bytes, std::uint64_t& at) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kMergeBytes));
    Status written = co_await into.writeAt(piece, at);
    if (!written.ok()) co_return written;
    at += piece.size();
    bytes = bytes.subspan(piece.size());
  }
  co_return Status();
}

}  // namespace hearth
