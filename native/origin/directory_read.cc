#include "origin/directory_read.h"

#include <fcntl.h>

#include <algorithm>

namespace hearth {
namespace {

// Reads in flight for one fetch: enough to keep an NVMe disk or an NFS server busy with pieces of a
// chunk.
constexpr std::uint64_t kReadsInFlight = 4;

}  // namespace

DirectoryRead::DirectoryRead(Reactor& reactor, FileSystem& files, const Event& cancelled,
                             OriginStatistics& statistics)
    : reactor_(reactor),
      files_(files),
      cancelled_(cancelled),
      statistics_(statistics),
      window_(reactor, kReadsInFlight),
      reads_(reactor) {}

Status DirectoryRead::check(const FileInfo& info) const {
  const auto changed = [this](const std::string& what) {
    return Error{ErrorCode::kOriginChanged,
                 path_ + ": " + what +
                     "; the file has changed since it was listed: add the dataset again for a new "
                     "revision"};
  };
  if (expectation_.objectSize != 0 && info.size != expectation_.objectSize) {
    return changed("it has " + std::to_string(info.size) + " bytes instead of " +
                   std::to_string(expectation_.objectSize));
  }
  const std::string now =
      "stat:" + std::to_string(info.modifiedNs) + ":" + std::to_string(info.changedNs);
  if (!expectation_.validator.empty() && expectation_.validator != now)
    return changed("its times are others");
  return {};
}

Task<Status> DirectoryRead::open(const Location& location) {
  path_ = location.path;
  const std::string folder = location.below == "/" ? "/" : location.below + "/";
  if (location.below.empty() || !path_.starts_with(folder) || path_.size() == folder.size()) {
    co_return Error{ErrorCode::kInvalidArgument, path_ + ": it does not lie below the directory '" +
                                                     location.below +
                                                     "', which its location must name"};
  }
  // Whoever writes to the directory may have put a link there since it was listed.
  auto opening = files_.openBelow(location.below, path_.substr(folder.size()));
  auto file = co_await opening;
  if (!file.ok()) co_return file.error();
  file_ = std::move(*file);
  auto inspect = file_->info();
  const auto info = co_await inspect;
  if (!info.ok()) co_return info.error();
  opened_ = *info;
  co_return check(opened_);
}

Task<Status> DirectoryRead::unchanged() {
  auto inspect = file_->info();
  const auto info = co_await inspect;
  if (!info.ok()) co_return info.error();
  if (Status same = check(*info); !same.ok()) co_return same;
  if (info->size != opened_.size || info->modifiedNs != opened_.modifiedNs) {
    co_return Error{ErrorCode::kOriginChanged, path_ + ": the file was written while it was read"};
  }
  co_return Status();
}

Task<void> DirectoryRead::readPiece(std::size_t index, std::uint64_t offset,
                                    std::span<std::byte> into) {
  if (failure_.ok() && !cancelled_.isSet() && !into.empty()) {
    ++statistics_.requests;
    auto read = file_->readAt(into, offset);
    const auto count = co_await read;
    if (!count.ok()) {
      failure_ = count.error();
    } else {
      statistics_.bytes += *count;
      if (*count != into.size()) {
        failure_ = Error{ErrorCode::kOriginChanged, path_ + ": the file ends at byte " +
                                                        std::to_string(offset + *count) +
                                                        ", before the range that was listed"};
      }
    }
  }
  window_.release(1);
  ended_[index]->set();
}

Task<Status> DirectoryRead::run(Location location, OriginExpectation expectation,
                                std::uint64_t offset, std::vector<std::span<std::byte>> into,
                                std::function<void(std::size_t)> filled) {
  expectation_ = std::move(expectation);
  if (!expectation_.validator.empty() && !expectation_.validator.starts_with("stat:")) {
    co_return Error{
        ErrorCode::kInvalidArgument,
        location.path + ": the validator is not one of a file (stat:...); list the origin again"};
  }
  auto opening = open(location);
  if (Status opened = co_await opening; !opened.ok()) co_return opened;
  std::uint64_t total = 0;
  for (const auto& piece : into) total += piece.size();
  if (const int fd = file_->descriptor(); fd >= 0 && total > 0) {
    // Only advice: larger read-ahead.
    (void)posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(total),
                        POSIX_FADV_SEQUENTIAL);
  }
  for (std::size_t i = 0; i < into.size(); ++i) ended_.push_back(std::make_unique<Event>(reactor_));
  std::size_t started = 0;
  std::uint64_t at = offset;
  for (std::size_t i = 0; i < into.size(); ++i) {
    for (; started < into.size() && window_.tryAcquire(1); ++started) {
      reads_.spawn(readPiece(started, at, into[started]));
      at += into[started].size();
    }
    auto ended = ended_[i]->wait();
    co_await ended;
    if (!failure_.ok() || cancelled_.isSet()) break;
    auto recheck = unchanged();
    Status same = co_await recheck;
    if (!same.ok()) {
      failure_ = std::move(same);
      break;
    }
    filled(i);
  }
  // The memory belongs to the caller again only when no read is left.
  auto idle = reads_.close();
  co_await idle;
  if (!failure_.ok()) co_return failure_;
  if (cancelled_.isSet())
    co_return Error{ErrorCode::kCancelled, path_ + ": the read was cancelled"};
  co_return Status();
}

}  // namespace hearth
