#include "mount/idmapped_mount.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/owned_fd.h"
#include "holder/child_call.h"

namespace hearth {
namespace {

// The highest id, which owns no file of ours: all other owners, root too, map to none.
constexpr std::string_view kMap = "4294967294 4294967294 1";

Error unsupported(const char* step) {
  return Error{ErrorCode::kUnsupported, std::string("mounts without owners cannot be made here (") +
                                            step + ": " + std::strerror(errno) + ")"};
}

bool writeMap(pid_t child, const char* name) {
  const std::string path = "/proc/" + std::to_string(child) + "/" + name;
  const OwnedFd map(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return map.get() >= 0 && write(map.get(), kMap.data(), kMap.size()) == ssize_t(kMap.size());
}

// A user namespace that maps one id. The namespace needs a process as long as it has no descriptor.
// The process has no exit signal, so that nothing else in this program waits for it.
Result<OwnedFd> makeUserNamespace() {
  const pid_t parent = getpid();
  const pid_t child = pid_t(syscall(SYS_clone, CLONE_NEWUSER, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) return unsupported("a user namespace");
  if (child == 0) {
    // The child of a program with threads makes nothing but system calls. It has no use for files
    // and locks of the parent.
    endWithParent(parent);
    close_range(0, ~0U, 0);
    // pause(2) is missing on arm64.
    for (;;) syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
  }
  OwnedFd space;
  const bool mapped = writeMap(child, "uid_map") && writeMap(child, "gid_map");
  if (mapped) {
    const std::string path = "/proc/" + std::to_string(child) + "/ns/user";
    space = OwnedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  const int error = errno;
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  errno = error;
  if (space.get() < 0) return unsupported("a map of ids");
  return space;
}

}  // namespace

Result<OwnedFd> makeIdmapped(const std::string& source) {
  auto space = makeUserNamespace();
  if (!space.ok()) return space.error();
  OwnedFd tree(
      int(syscall(SYS_open_tree, AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (tree.get() < 0) return unsupported("open_tree");
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP;
  attributes.userns_fd = std::uint64_t(space->get());
  if (syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0) {
    return unsupported("mount_setattr");
  }
  return tree;
}

Status bindIdmapped(const std::string& source, const std::string& target) {
  const Result<OwnedFd> tree = makeIdmapped(source);
  if (!tree.ok()) return tree.error();
  if (syscall(SYS_move_mount, tree->get(), "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) !=
      0) {
    return unsupported("move_mount");
  }
  return {};
}

}  // namespace hearth
