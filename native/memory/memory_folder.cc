#include "memory/memory_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

int configure(const OwnedFd& context, unsigned command, const char* key = nullptr,
              const char* value = nullptr) {
  return static_cast<int>(syscall(SYS_fsconfig, context.get(), command, key, value, 0));
}

bool setOption(const OwnedFd& context, const char* key, const std::string& value) {
  return configure(context, FSCONFIG_SET_STRING, key, value.c_str()) == 0;
}

Status setBytes(const OwnedFd& context, std::uint64_t bytes) {
  // Of a tmpfs, 0 means no limit.
  if (bytes == 0) return Error{ErrorCode::kInvalidArgument, "a folder of memory has 0 bytes"};
  if (setOption(context, "size", std::to_string(bytes))) return {};
  return errnoError(errno, "size a folder of memory");
}

// "within_size", or why not.
std::string preferHugePages(const OwnedFd& context) {
  if (setOption(context, "huge", "within_size")) return {};
  std::string why =
      std::string("the kernel refuses huge=within_size for a tmpfs: ") + std::strerror(errno);
  // Some kernels remember a value that they have refused.
  (void)setOption(context, "huge", "never");
  return why;
}

}  // namespace

Result<MemoryFolder> makeMemoryFolder(std::uint64_t bytes, uid_t owner, gid_t group) {
  const OwnedFd context(static_cast<int>(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC)));
  if (!context) return errnoError(errno, "make a folder of memory (fsopen)");
  if (Status sized = setBytes(context, bytes); !sized) return sized.error();
  MemoryFolder folder;
  folder.noHugePages = preferHugePages(context);
  (void)configure(context, FSCONFIG_SET_FLAG, "noswap");
  const bool owned = setOption(context, "mode", "0700") &&
                     setOption(context, "uid", std::to_string(owner)) &&
                     setOption(context, "gid", std::to_string(group));
  if (!owned) return errnoError(errno, "set the owner of a folder of memory");
  if (configure(context, FSCONFIG_CMD_CREATE) != 0)
    return errnoError(errno, "make a folder of memory (fsconfig)");
  folder.root.reset(static_cast<int>(
      syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)));
  if (!folder.root) return errnoError(errno, "make a folder of memory (fsmount)");
  return folder;
}

Status resizeMemoryFolder(const OwnedFd& root, std::uint64_t bytes) {
  const OwnedFd context(
      static_cast<int>(syscall(SYS_fspick, root.get(), "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC)));
  if (!context) return errnoError(errno, "resize a folder of memory (fspick)");
  if (Status sized = setBytes(context, bytes); !sized) return sized;
  // Without it some kernels take this for a wish to swap, which they refuse.
  (void)configure(context, FSCONFIG_SET_FLAG, "noswap");
  if (configure(context, FSCONFIG_CMD_RECONFIGURE) == 0) return {};
  const Error refused = errnoError(errno, "resize a folder of memory");
  struct statfs about {};
  if (::fstatfs(root.get(), &about) != 0) return refused;
  const std::uint64_t used =
      (about.f_blocks - about.f_bfree) * static_cast<std::uint64_t>(about.f_bsize);
  if (used <= bytes) return refused;
  return Error{ErrorCode::kOutOfSpace, "a folder of memory with " + std::to_string(used) +
                                           " bytes of files cannot be made one of " +
                                           std::to_string(bytes) + "; remove files first"};
}

Result<std::uint64_t> memoryFolderBytes(const OwnedFd& root) {
  struct statfs about {};
  if (::fstatfs(root.get(), &about) != 0) return errnoError(errno, "looking at a folder of memory");
  struct statx node {};
  if (::statx(root.get(), "", AT_EMPTY_PATH, STATX_TYPE, &node) != 0)
    return errnoError(errno, "looking at a folder of memory");
  const bool folder = about.f_type == TMPFS_MAGIC && S_ISDIR(node.stx_mode) &&
                      (node.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 && about.f_blocks != 0;
  if (!folder) {
    return Error{ErrorCode::kInvalidArgument,
                 "a folder of memory is the root directory of a tmpfs with a limit"};
  }
  return about.f_blocks * static_cast<std::uint64_t>(about.f_bsize);
}

}  // namespace hearth
