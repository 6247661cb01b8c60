// The kernel's FUSE protocol: linux/fuse.h, which ends at 7.38 (Linux 6.1) on Debian 12, and what
// came later, declared from the kernel's documentation (include/uapi/linux/fuse.h,
// Documentation/filesystems/ fuse/fuse-passthrough.rst). All integers are of the machine's byte
// order.
#pragma once

#include <linux/fuse.h>

#include <cstdint>

#include "holder/fuse_backing.h"

namespace hearth {

// Initialisation flags: bits 0-31 travel in `flags`, 32-63 in `flags2`.
inline constexpr std::uint64_t kFusePassthrough = 1ULL << 37;  // 7.40, Linux 6.9
inline constexpr std::uint64_t kFuseHasResend = 1ULL << 39;    // 7.41, Linux 6.10
inline constexpr std::uint64_t kFuseAllowIdmap = 1ULL << 40;   // 7.42, Linux 6.12

inline constexpr std::uint32_t kFopenPassthrough = 1U << 7;  // 7.40, Linux 6.9

inline constexpr std::uint32_t kFuseStatx = 52;  // 7.39, Linux 6.6

// fuse_init_out since 7.40: `max_stack_depth` took the first unused word.
struct FuseInitOut {
  std::uint32_t major;
  std::uint32_t minor;
  std::uint32_t maxReadahead;
  std::uint32_t flags;
  std::uint16_t maxBackground;
  std::uint16_t congestionThreshold;
  std::uint32_t maxWrite;
  std::uint32_t timeGranularity;
  std::uint16_t maxPages;
  std::uint16_t mapAlignment;
  std::uint32_t flags2;
  std::uint32_t maxStackDepth;
  std::uint32_t unused[6];
};
static_assert(sizeof(FuseInitOut) == sizeof(fuse_init_out));

// fuse_open_out since 7.40: `backing_id` took the padding.
struct FuseOpenOut {
  std::uint64_t handle;
  std::uint32_t openFlags;
  std::int32_t backingId;
};
static_assert(sizeof(FuseOpenOut) == sizeof(fuse_open_out));

// 7.39, Linux 6.6.
struct FuseSxTime {
  std::int64_t seconds;
  std::uint32_t nanoseconds;
  std::int32_t reserved;
};
struct FuseStatx {
  std::uint32_t mask;
  std::uint32_t blockSize;
  std::uint64_t attributes;
  std::uint32_t links;
  std::uint32_t uid;
  std::uint32_t gid;
  std::uint16_t mode;
  std::uint16_t spare0[1];
  std::uint64_t inode;
  std::uint64_t size;
  std::uint64_t blocks;
  std::uint64_t attributesMask;
  FuseSxTime accessed;
  FuseSxTime born;
  FuseSxTime changed;
  FuseSxTime modified;
  std::uint32_t deviceMajor;
  std::uint32_t deviceMinor;
  std::uint32_t onDeviceMajor;
  std::uint32_t onDeviceMinor;
  std::uint64_t spare2[14];
};
static_assert(sizeof(FuseStatx) == 256);
struct FuseStatxIn {
  std::uint32_t getattrFlags;
  std::uint32_t reserved;
  std::uint64_t handle;
  std::uint32_t syncFlags;
  std::uint32_t mask;
};
struct FuseStatxOut {
  std::uint64_t validSeconds;
  std::uint32_t validNanoseconds;
  std::uint32_t flags;
  std::uint64_t spare[2];
  FuseStatx stat;
};
static_assert(sizeof(FuseStatxOut) == 288);

}  // namespace hearth
