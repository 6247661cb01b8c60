#include "fuse/fuse_message.h"

#include <unistd.h>

#include <cerrno>

namespace hearth {

Result<std::optional<std::span<const std::byte>>> readFuseMessage(int device,
                                                                  std::span<std::byte> buffer) {
  using Message = std::optional<std::span<const std::byte>>;
  for (;;) {
    const ssize_t size = ::read(device, buffer.data(), buffer.size());
    if (size >= 0) return Message(buffer.first(static_cast<std::size_t>(size)));
    switch (errno) {
      case EAGAIN:
        return Message();
      case EINTR:
      case ENOENT:  // the request was interrupted before it was read
        continue;
      case ENODEV:
        return Error{ErrorCode::kCancelled, "unmounted"};
      case ECONNABORTED:
        return Error{
            ErrorCode::kUnavailable,
            "the FUSE connection was aborted from outside; unmount the folder and mount it again"};
      default:
        return errnoError(errno, "read requests from /dev/fuse");
    }
  }
}

}  // namespace hearth
