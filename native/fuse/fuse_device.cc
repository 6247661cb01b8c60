#include "fuse/fuse_device.h"

#include <sys/ioctl.h>
#include <sys/uio.h>

#include <cerrno>
#include <string>

#include "fuse/fuse_abi.h"

namespace hearth {
namespace {

std::string backingAdvice(int error) {
  switch (error) {
    case EPERM:
      return " (the agent needs CAP_SYS_ADMIN)";
    case ELOOP:
      return " (the cache directory is on a stacked file system such as overlayfs; use ext4 or "
             "xfs)";
    case ENOTTY:
      return " (this kernel has no FUSE passthrough; Linux 6.9 has)";
    default:
      return "";
  }
}

}  // namespace

bool FuseDevice::write(std::uint64_t unique, std::int32_t code, std::span<const std::byte> body,
                       std::span<const std::byte> rest) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size() + rest.size());
  header.error = code;
  header.unique = unique;
  const iovec parts[3] = {{&header, sizeof header},
                          {const_cast<std::byte*>(body.data()), body.size()},
                          {const_cast<std::byte*>(rest.data()), rest.size()}};
  const int count = !rest.empty() ? 3 : !body.empty() ? 2 : 1;
  return writev(fd_.get(), parts, count) == static_cast<ssize_t>(header.len);
}

bool FuseDevice::reply(std::uint64_t unique, std::span<const std::byte> body,
                       std::span<const std::byte> rest) {
  return write(unique, 0, body, rest);
}

bool FuseDevice::replyError(std::uint64_t unique, int error) { return write(unique, -error, {}); }

bool FuseDevice::resend() { return write(0, kFuseNotifyResend, {}); }

Result<std::int32_t> FuseDevice::openBacking(int file) {
  const FuseBackingMap map{.fd = file, .flags = 0, .padding = 0};
  const int id = ioctl(fd_.get(), kFuseBackingOpen, &map);
  if (id <= 0) {
    return errnoError(errno, "passthrough of a cache file" + backingAdvice(errno));
  }
  return id;
}

void FuseDevice::closeBacking(std::int32_t id) {
  const auto value = static_cast<std::uint32_t>(id);
  // It fails only when the connection has ended, and the id with it.
  [[maybe_unused]] const int result = ioctl(fd_.get(), kFuseBackingClose, &value);
}

}  // namespace hearth
