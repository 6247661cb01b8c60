#include "client/completion_status.h"

#include <cerrno>

#include "client/include/xfer/gd2fs.h"

namespace hearth::gd2fs {
namespace {

constexpr std::uint16_t status(unsigned kind, int error) {
  return static_cast<std::uint16_t>((kind << 8) | static_cast<unsigned>(error));
}

}  // namespace

std::uint16_t statusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return 0;
    case ErrorCode::kCancelled:
      return status(XFER_GD2FS_CLASS_REQUEST, ECANCELED);
    case ErrorCode::kInvalidArgument:
      return status(XFER_GD2FS_CLASS_REQUEST, EINVAL);
    case ErrorCode::kNotFound:
      return status(XFER_GD2FS_CLASS_REQUEST, ENOENT);
    case ErrorCode::kAlreadyExists:
      return status(XFER_GD2FS_CLASS_REQUEST, EEXIST);
    case ErrorCode::kUnsupported:
      return status(XFER_GD2FS_CLASS_REQUEST, EOPNOTSUPP);
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kUnauthenticated:
      return status(XFER_GD2FS_CLASS_ACCESS, EACCES);
    case ErrorCode::kUnavailable:
    case ErrorCode::kTryElsewhere:
      return status(XFER_GD2FS_CLASS_CLUSTER, EHOSTUNREACH);
    case ErrorCode::kDeadlineExceeded:
      return status(XFER_GD2FS_CLASS_CLUSTER, ETIMEDOUT);
    case ErrorCode::kOutOfSpace:
      return status(XFER_GD2FS_CLASS_CLUSTER, ENOSPC);
    case ErrorCode::kInUse:
      return status(XFER_GD2FS_CLASS_CLUSTER, EBUSY);
    case ErrorCode::kProtocolError:
      return status(XFER_GD2FS_CLASS_CLUSTER, EPROTO);
    case ErrorCode::kOriginChanged:
    case ErrorCode::kConflict:
      return status(XFER_GD2FS_CLASS_DATA, ESTALE);
    case ErrorCode::kCorrupt:
      return status(XFER_GD2FS_CLASS_DATA, EBADMSG);
    case ErrorCode::kLocationExpired:
    case ErrorCode::kIoError:
    case ErrorCode::kInternal:
      return status(XFER_GD2FS_CLASS_DATA, EIO);
  }
  return status(XFER_GD2FS_CLASS_DATA, EIO);
}

std::uint16_t requestStatus(int error) { return status(XFER_GD2FS_CLASS_REQUEST, error); }

std::uint16_t memoryStatus() { return status(XFER_GD2FS_CLASS_CLUSTER, ENOMEM); }

}  // namespace hearth::gd2fs
