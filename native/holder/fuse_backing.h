// Backing files of FUSE (passthrough) and requests that are sent again, declared from the kernel's
// documentation (7.40, Linux 6.9: include/uapi/linux/fuse.h), which Debian 12's headers do not
// have.
#pragma once

#include <linux/fuse.h>
#include <linux/ioctl.h>

#include <cstdint>

namespace hearth {

// Registers a file of another file system as a backing file; needs CAP_SYS_ADMIN.
struct FuseBackingMap {
  std::int32_t fd;
  std::uint32_t flags;
  std::uint64_t padding;
};
inline constexpr unsigned long kFuseBackingOpen = _IOW(FUSE_DEV_IOC_MAGIC, 1, FuseBackingMap);
inline constexpr unsigned long kFuseBackingClose = _IOW(FUSE_DEV_IOC_MAGIC, 2, std::uint32_t);

// The kernel gives all requests again that were read and not answered.
inline constexpr std::int32_t kFuseNotifyResend = 7;
// Set in `unique` of a request that is sent again after FUSE_NOTIFY_RESEND.
inline constexpr std::uint64_t kFuseUniqueResend = 1ULL << 63;

}  // namespace hearth
