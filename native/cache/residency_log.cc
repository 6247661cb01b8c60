#include "cache/residency_log.h"

#include <algorithm>

namespace hearth {
namespace {

// A new log is synced after each of these.
constexpr std::size_t kSyncedBytes = std::size_t{64} << 20;

// Records as one append at this offset of the file.
std::vector<std::byte> framed(std::span<const std::byte> records, std::uint64_t offset) {
  std::vector<std::byte> bytes;
  bytes.reserve(kAppendBytes + records.size());
  appendRecord(
      bytes,
      {.type = RecordType::kAppend, .size = kAppendBytes + records.size(), .offset = offset});
  bytes.insert(bytes.end(), records.begin(), records.end());
  return bytes;
}

// A disk that is slow ends something now and then, so that it is not taken for one that hangs.
Task<Status> writeSynced(File& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto piece = bytes.subspan(at, std::min(bytes.size() - at, kSyncedBytes));
    Status done = co_await file.writeAt(piece, offset + at);
    if (done.ok()) done = co_await file.syncData();
    if (!done.ok()) co_return done;
    at += piece.size();
  }
  co_return Status();
}

}  // namespace

Task<Result<std::unique_ptr<ResidencyLog>>> ResidencyLog::open(
    FileSystem& files, std::string folder, std::function<void(const ResidencyRecord&)> replayed) {
  std::unique_ptr<ResidencyLog> log(new ResidencyLog(files, std::move(folder)));
  const Status opened = co_await log->openOrCreate();
  if (!opened.ok()) co_return opened.error();
  Result<ReplayReport> report = co_await replayLog(*log->file_, log->path(), std::move(replayed));
  if (!report.ok()) co_return report.error();
  log->report_ = std::move(*report);
  log->bytes_ = log->report_.goodBytes;
  log->mustBeRewritten_ = log->report_.version != kLogVersion || log->report_.rotten;
  // The log is made whole before it is renamed into place: a bad header is bit rot, and nothing in
  // the file can be trusted.
  Status ready;
  if (log->report_.version == 0) {
    ready = co_await log->rewrite({});
  } else if (!log->mustBeRewritten_ && log->report_.lostBytes != 0) {
    log->tailUncertain_ = true;
    ready = co_await log->repairTail();
  }
  if (!ready.ok()) co_return ready.error();
  co_return std::move(log);
}

Task<Status> ResidencyLog::openOrCreate() {
  Result<std::unique_ptr<File>> opened = co_await files_.open(path(), {.write = true});
  if (opened.ok()) {
    file_ = std::move(*opened);
    co_return Status();
  }
  if (opened.code() != ErrorCode::kNotFound) co_return opened.error();
  co_return co_await rewrite({});
}

Task<Status> ResidencyLog::settleRename() {
  if (renamed_ == nullptr) co_return Status();
  const Status done = co_await files_.rename(aside(), path());
  // kNotFound: it was done. Nothing was appended to the old log since.
  if (!done.ok() && done.code() != ErrorCode::kNotFound) co_return done;
  file_ = std::move(renamed_);
  bytes_ = renamedBytes_;
  tailUncertain_ = false;
  mustBeRewritten_ = false;
  nameUncertain_ = true;
  co_return Status();
}

Task<Status> ResidencyLog::repairTail() {
  const Status settled = co_await settleRename();
  if (!settled.ok()) co_return settled;
  if (nameUncertain_) {
    const Status named = co_await files_.syncDirectory(folder_);
    if (!named.ok()) co_return named;
    nameUncertain_ = false;
  }
  if (!tailUncertain_) co_return Status();
  const Status cut = co_await file_->truncate(bytes_);
  if (!cut.ok()) co_return cut;
  // Else what was cut off might come back behind the next records.
  const Status synced = co_await file_->syncData();
  if (!synced.ok()) co_return synced;
  tailUncertain_ = false;
  co_return Status();
}

Task<Status> ResidencyLog::append(std::span<const std::byte> records) {
  if (mustBeRewritten_ && renamed_ == nullptr) {
    co_return Error{ErrorCode::kInternal,
                    path() + " would be appended to before it is rewritten; please report this"};
  }
  const Status repaired = co_await repairTail();
  if (!repaired.ok()) co_return repaired;
  const std::vector<std::byte> bytes = framed(records, bytes_);
  tailUncertain_ = true;
  const Status written = co_await file_->writeAt(bytes, bytes_);
  if (!written.ok()) co_return written;
  const Status synced = co_await file_->syncData();
  if (!synced.ok()) co_return synced;
  tailUncertain_ = false;
  bytes_ += bytes.size();
  co_return Status();
}

Task<Status> ResidencyLog::rewrite(std::span<const std::byte> records) {
  const Status settled = co_await settleRename();
  if (!settled.ok()) co_return settled;
  auto opening =
      files_.open(aside(), {.write = true, .create = true, .truncate = true, .mode = 0600});
  Result<std::unique_ptr<File>> opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  const std::vector<std::byte> header = logHeader();
  std::uint64_t bytes = header.size();
  Status done = co_await writeSynced(**opened, header, 0);
  if (done.ok() && !records.empty()) {
    const std::vector<std::byte> body = framed(records, bytes);
    done = co_await writeSynced(**opened, body, bytes);
    bytes += body.size();
  }
  if (!done.ok()) co_return done;
  renamed_ = std::move(*opened);
  renamedBytes_ = bytes;
  co_return co_await repairTail();
}

}  // namespace hearth
