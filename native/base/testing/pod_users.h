// The user namespace of a pod with `hostUsers: false`, and the mount that a container runtime makes
// for it, for tests. Only system calls are made in child processes, since the test's program has
// threads. Needs root.
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "base/owned_fd.h"

namespace hearth::pod_users {

// Root of the pod, and all that the pod may be, as kubelets map it (pkg/kubelet/userns).
inline constexpr std::string_view kMap = "0 65536 65536";

// Invalid when this process may make no such namespace.
inline OwnedFd makeNamespace() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const char made = unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
    if (write(ends[1], &made, 1) != 1) _exit(1);
    for (;;) syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);
  }
  close(ends[1]);
  char made = 0;
  OwnedFd users;
  if (read(ends[0], &made, 1) == 1 && made == 1) {
    const std::string process = "/proc/" + std::to_string(child);
    bool mapped = true;
    for (const char* const name : {"/uid_map", "/gid_map"}) {
      const OwnedFd map(open((process + name).c_str(), O_WRONLY | O_CLOEXEC));
      mapped = mapped && write(map.get(), kMap.data(), kMap.size()) == ssize_t(kMap.size());
    }
    if (mapped) users.reset(open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  }
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return users;
}

// Binds `source` at `target` as runc does for a volume that the pod wants writable: with the ids of
// the namespace, and without the read-only flag. Returns 0, or the errno of the step that failed.
inline int bindMapped(const std::string& source, const std::string& target, const OwnedFd& users) {
  const OwnedFd tree(static_cast<int>(
      syscall(SYS_open_tree, AT_FDCWD, source.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
  if (!tree) return errno;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.attr_clr = MOUNT_ATTR_RDONLY;
  attributes.userns_fd = static_cast<std::uint64_t>(users.get());
  if (syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0) {
    return errno;
  }
  return syscall(SYS_move_mount, tree.get(), "", AT_FDCWD, target.c_str(),
                 MOVE_MOUNT_F_EMPTY_PATH) == 0
             ? 0
             : errno;
}

// Makes the calling process root of the pod, with all capabilities that its namespace gives.
inline bool becomeRoot(const OwnedFd& users) {
  return setns(users.get(), CLONE_NEWUSER) == 0 && setresgid(0, 0, 0) == 0 &&
         setresuid(0, 0, 0) == 0 && unshare(CLONE_NEWNS) == 0;
}

}  // namespace hearth::pod_users
