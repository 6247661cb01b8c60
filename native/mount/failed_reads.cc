#include "mount/failed_reads.h"

namespace hearth {

std::optional<std::uint64_t> FailedReads::note(const ContentKey& file, ErrorCode reason,
                                               Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  ++counts_[reason];
  Kind kind{file, reason};
  auto found = logged_.find(kind);
  if (found == logged_.end() && logged_.size() >= kRemembered) {
    std::erase_if(logged_, [&](const auto& one) { return now - one.second.at >= kPause; });
    if (logged_.size() >= kRemembered) {
      kind.first = ContentKey{};
      found = logged_.find(kind);
    }
  }
  if (found == logged_.end()) {
    logged_[kind] = {now, 0};
    return 0;
  }
  Logged& logged = found->second;
  if (now - logged.at < kPause) {
    ++logged.suppressed;
    return std::nullopt;
  }
  logged.at = now;
  return std::exchange(logged.suppressed, 0);
}

std::map<ErrorCode, std::uint64_t> FailedReads::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string_view adviceFor(ErrorCode reason) {
  switch (reason) {
    case ErrorCode::kOutOfSpace:
      return "raise the budget of the cache directory, free space on its disk, or unpin, unmount "
             "or "
             "evict other datasets";
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kLocationExpired:
      return "check that the credentials of the dataset are valid and may read this file";
    case ErrorCode::kNotFound:
    case ErrorCode::kOriginChanged:
      return "the origin no longer has the bytes of this revision: add the dataset again and mount "
             "its new revision, or put the file back";
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kTryElsewhere:
    case ErrorCode::kConflict:
      return "check that the origin and the other agents can be reached; reads are tried again "
             "when "
             "the application tries again";
    case ErrorCode::kCorrupt:
    case ErrorCode::kIoError:
      return "look for errors of the disk in the kernel's log, and evict the file so that it is "
             "fetched again";
    case ErrorCode::kProtocolError:
      return "check that the origin's address is that of a server of files, and that all agents "
             "have the same version";
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kInUse:
      return "run `hearth doctor` on this node";
    case ErrorCode::kOk:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      break;
  }
  return "please report this with the log";
}

}  // namespace hearth
