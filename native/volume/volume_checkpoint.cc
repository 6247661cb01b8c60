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
  co_await beginWriting();
  std::vector<std::string> segments;
  for (const Segment& segment : segments_) segments.push_back(segment.name);
  const Status written = co_await writeGroup();
  Status done = written;
  // Records from here on are in another segment.
  const std::uint64_t number = durable_;
  const bool nothing = number == checkpointed_;
  if (done.ok() && !nothing) done = co_await beginSegment(number + 1);
  endWriting(written);
  if (done.ok() && !nothing) done = co_await mergeUpTo(number, std::move(segments));
  checkpointing_ = false;
  co_return done;
}

Task<Status> VolumeLog::mergeUpTo(std::uint64_t number, std::vector<std::string> segments) {
  auto since = co_await recordsIn(segments);
  if (!since.ok()) co_return since.error();
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
    const auto report = co_await readSegment(**opened, path(name), add);
    if (!report.ok()) co_return report.error();
  }
  co_return std::move(since);
}

Task<Status> VolumeLog::writeMerged(File& into, tree::RecordsSince since) {
  using Step = tree::CheckpointReader::Step;
  tree::Bytes merged;
  tree::CheckpointMerge merge(std::move(since), merged);
  std::uint64_t at = 0;
  if (checkpointed_ == 0) {
    const Step step = merge.finishWithoutOld();
    if (step == Step::kEnd) co_return co_await into.writeAt(merged, 0);
  } else {
    auto old = co_await files_.open(path(checkpointName(checkpointed_)), {});
    if (!old.ok()) co_return old.error();
    std::vector<std::byte> bytes(kMergeBytes);
    Step step = Step::kMore;
    for (std::uint64_t from = 0; step == Step::kMore;) {
      const auto read = co_await (*old)->readAt(bytes, from);
      if (!read.ok()) co_return read.error();
      if (*read == 0) break;
      from += *read;
      step = merge.feed(std::span(bytes).first(*read));
      const Status written = co_await into.writeAt(merged, at);
      if (!written.ok()) co_return written;
      at += merged.size();
      merged.clear();
    }
    if (step == Step::kEnd) co_return Status();
  }
  co_return Error{ErrorCode::kCorrupt, path(checkpointName(checkpointed_)) +
                                           " and the records since do not fit together"};
}

}  // namespace hearth
