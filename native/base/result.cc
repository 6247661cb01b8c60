#include "base/result.h"

#include <cerrno>
#include <system_error>

namespace hearth {
namespace {

ErrorCode codeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENXIO:
    case ENODEV:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kOutOfSpace;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EBUSY:
    case EADDRINUSE:
      return ErrorCode::kInUse;
    case EINVAL:
    case ENAMETOOLONG:
      return ErrorCode::kInvalidArgument;
    case EMLINK:
    case EXDEV:
    case EOPNOTSUPP:
    case ENOSYS:
      return ErrorCode::kUnsupported;
    case ECANCELED:
      return ErrorCode::kCancelled;
    case ETIMEDOUT:
    case ETIME:
      return ErrorCode::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENOTCONN:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kIoError;
  }
}

}  // namespace

Error errnoError(int error, std::string_view what) {
  return {codeOf(error), std::string(what) + ": " + std::generic_category().message(error)};
}

}  // namespace hearth
