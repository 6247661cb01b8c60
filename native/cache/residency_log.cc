#include "cache/residency_log.h"

#include <array>
#include <cstring>

#include "base/crc32c.h"

namespace hearth {
namespace {

constexpr std::string_view kMagic = "HEARTHRL";
// How much of the log is read at a time.
constexpr std::size_t kReadBytes = std::size_t{256} << 10;

std::array<std::byte, ResidencyLog::kHeaderBytes> header() {
  std::array<std::byte, ResidencyLog::kHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  const std::uint32_t version = ResidencyLog::kVersion;
  std::memcpy(bytes.data() + 8, &version, 4);
  const std::uint32_t checksum = crc32c({bytes.data(), 12});
  std::memcpy(bytes.data() + 12, &checksum, 4);
  return bytes;
}

enum class HeaderKind { kOurs, kNewer, kBad };

HeaderKind classify(std::span<const std::byte> bytes) {
  if (bytes.size() < ResidencyLog::kHeaderBytes) return HeaderKind::kBad;
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&checksum, bytes.data() + 12, 4);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return HeaderKind::kBad;
  if (checksum != crc32c(bytes.first(12))) return HeaderKind::kBad;
  return version == ResidencyLog::kVersion ? HeaderKind::kOurs : HeaderKind::kNewer;
}

}  // namespace

Task<Result<std::unique_ptr<ResidencyLog>>> ResidencyLog::open(
    FileSystem& files, std::string folder, std::function<void(const ResidencyRecord&)> replayed) {
  std::unique_ptr<ResidencyLog> log(new ResidencyLog(files, std::move(folder)));
  const Status opened = co_await log->openOrCreate();
  if (!opened.ok()) co_return opened.error();
  const Status read = co_await log->replay(replayed);
  if (!read.ok()) co_return read.error();
  co_return std::move(log);
}

Task<Status> ResidencyLog::openOrCreate() {
  auto call = files_.open(path(), {.write = true});
  Result<std::unique_ptr<File>> opened = co_await call;
  if (opened.ok()) {
    file_ = std::move(*opened);
    co_return Status();
  }
  if (opened.code() != ErrorCode::kNotFound) co_return opened.error();
  co_return co_await rewrite({});
}

Task<Status> ResidencyLog::replay(const std::function<void(const ResidencyRecord&)>& replayed) {
  std::vector<std::byte> buffer;
  std::uint64_t readTo = 0;
  std::size_t parsedTo = 0;  // in buffer
  bool headerSeen = false;
  for (;;) {
    buffer.erase(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(parsedTo));
    parsedTo = 0;
    const std::size_t kept = buffer.size();
    buffer.resize(kept + kReadBytes);
    const Result<std::size_t> count =
        co_await file_->readAt(std::span(buffer).subspan(kept), readTo);
    if (!count.ok()) co_return count.error();
    buffer.resize(kept + *count);
    readTo += *count;
    if (!headerSeen) {
      const HeaderKind kind = classify(buffer);
      if (kind == HeaderKind::kNewer) {
        co_return Error{ErrorCode::kUnsupported,
                        path() +
                            " was written by another version of Hearth; run that version or "
                            "empty the cache directory"};
      }
      // The log is made whole before it is renamed into place: a bad header is bit rot, and nothing
      // in the file can be trusted.
      if (kind == HeaderKind::kBad) co_return co_await rewrite({});
      headerSeen = true;
      parsedTo = kHeaderBytes;
      bytes_ = kHeaderBytes;
    }
    while (const auto parsed = parseRecord(std::span(buffer).subspan(parsedTo))) {
      replayed(parsed->record);
      parsedTo += parsed->bytes;
      bytes_ += parsed->bytes;
    }
    // A record is far shorter than a read: one that still does not parse is bad, not cut off.
    if (*count < kReadBytes || buffer.size() - parsedTo > recordBytes(kBlocksPerChunk)) break;
  }
  if (readTo == bytes_) co_return Status();
  tailUncertain_ = true;
  co_return co_await repairTail();
}

Task<Status> ResidencyLog::repairTail() {
  if (nameUncertain_) {
    auto syncing = files_.syncDirectory(folder_);
    const Status named = co_await syncing;
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
  const Status repaired = co_await repairTail();
  if (!repaired.ok()) co_return repaired;
  tailUncertain_ = true;
  const Status written = co_await file_->writeAt(records, bytes_);
  if (!written.ok()) co_return written;
  const Status synced = co_await file_->syncData();
  if (!synced.ok()) co_return synced;
  tailUncertain_ = false;
  bytes_ += records.size();
  co_return Status();
}

Task<Status> ResidencyLog::rewrite(std::span<const std::byte> records) {
  const std::string aside = path() + ".tmp";
  auto opening =
      files_.open(aside, {.write = true, .create = true, .truncate = true, .mode = 0600});
  Result<std::unique_ptr<File>> opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  const std::unique_ptr<File>& fresh = *opened;
  const auto first = header();
  Status done = co_await fresh->writeAt(first, 0);
  if (done.ok()) done = co_await fresh->writeAt(records, kHeaderBytes);
  if (done.ok()) done = co_await fresh->syncData();
  if (!done.ok()) co_return done;
  auto renaming = files_.rename(aside, path());
  done = co_await renaming;
  if (!done.ok()) co_return done;
  file_ = std::move(*opened);
  bytes_ = kHeaderBytes + records.size();
  tailUncertain_ = false;
  // Until the folder is synced a crash may bring the old log back, without what is appended to this
  // one.
  nameUncertain_ = true;
  co_return co_await repairTail();
}

}  // namespace hearth
