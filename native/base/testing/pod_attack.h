// The attack of a container on bytes of which it has a descriptor, for tests: a process with uid 0,
// in a mount namespace of its own, without capabilities, or with those of a user namespace of its
// own. Only system calls are made in the process, since the test's program has threads.
#pragma once

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace hearth::pod_attack {

enum class Pod { kWithoutCapabilities, kWithUserNamespace };

// A success changes the file, its mode or its owner for all who read it.
inline const char* firstSuccess(int fd) {
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  if (fchmod(fd, 0644) == 0) return "fchmod of the descriptor";
  if (chmod(path.data(), 0644) == 0) return "chmod by /proc/self/fd";
  if (fchown(fd, 0, 0) == 0) return "fchown";
  for (const int flags : {O_WRONLY, O_RDWR, O_RDWR | O_TRUNC, O_WRONLY | O_APPEND})
    if (open(path.data(), flags | O_CLOEXEC) >= 0) return "opening /proc/self/fd for writing";
  if (truncate(path.data(), 1) == 0) return "truncate";
  if (ftruncate(fd, 1) == 0) return "ftruncate";
  if (pwrite(fd, "x", 1, 0) == 1) return "pwrite";
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) return "fallocate";
  if (mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
    return "a writable mapping";
  void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED && mprotect(mapped, 4096, PROT_READ | PROT_WRITE) == 0)
    return "a mapping that becomes writable";
  if (fsetxattr(fd, "user.changed", "x", 1, 0) == 0) return "fsetxattr";
  if (futimens(fd, nullptr) == 0) return "futimens";
  mount_attr writable{};
  writable.attr_clr = MOUNT_ATTR_RDONLY | MOUNT_ATTR_IDMAP;
  if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH, &writable, sizeof writable) == 0)
    return "making the mount writable";
  const auto tree = static_cast<int>(
      syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (tree >= 0) return "a copy of the mount";
  return nullptr;
}

inline bool becomePod(Pod pod) {
  if (unshare(pod == Pod::kWithUserNamespace ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) != 0)
    return false;
  if (pod == Pod::kWithUserNamespace) return true;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

// The change to the file of `fd` that a process can make after `become`, which returns true when
// the process is such a one; "" when all are refused. Blocks; needs root.
template <typename Become>
const char* changeMadeAfter(Become become, int fd) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe: the test proves nothing";
  const pid_t child = fork();
  if (child == 0) {
    const char* done = become() ? firstSuccess(fd) : "no container: the test proves nothing";
    _exit(write(ends[1], &done, sizeof done) == sizeof done ? 0 : 1);
  }
  close(ends[1]);
  // The same address in parent and child: literals of this program.
  const char* done = "the process died: the test proves nothing";
  if (read(ends[0], &done, sizeof done) == sizeof done && done == nullptr) done = "";
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return done;
}

inline const char* changeMadeBy(Pod pod, int fd) {
  return changeMadeAfter([pod] { return becomePod(pod); }, fd);
}

}  // namespace hearth::pod_attack
