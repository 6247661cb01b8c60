#include "fuse/fuse_errno.h"

#include <cerrno>

namespace hearth {

int readErrno(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDeadlineExceeded:
      return ETIMEDOUT;
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kUnauthenticated:
      return EACCES;
    default:
      return EIO;
  }
}

int adviceErrno(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
      return EAGAIN;
    case ErrorCode::kInvalidArgument:
      return E2BIG;
    default:
      return EIO;
  }
}

}  // namespace hearth
