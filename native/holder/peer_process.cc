#include "holder/peer_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace hearth {
namespace {

// Debian 12's headers do not have it.
constexpr int kPeerPidfd = 77;
constexpr decltype(statfs::f_type) kPidfsMagic = 0x50494446;

// As /proc shows it; 0 when it is not in the namespace of ours, less when it has been reaped.
long pidOf(const OwnedFd& process) {
  std::ifstream file("/proc/self/fdinfo/" + std::to_string(process.get()));
  for (std::string word; file >> word;) {
    long pid = 0;
    if (word == "Pid:" && file >> pid) return pid;
  }
  return 0;
}

}  // namespace

OwnedFd processOf(int socket, pid_t pid) {
  int process = -1;
  socklen_t size = sizeof process;
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &process, &size) == 0) return OwnedFd(process);
  if (pid <= 0) return {};
  return OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool hasEnded(const OwnedFd& process) {
  pollfd end{process.get(), POLLIN, 0};
  return process && poll(&end, 1, 0) > 0 && (end.revents & (POLLIN | POLLHUP)) != 0;
}

std::optional<bool> sameProcess(const OwnedFd& a, const OwnedFd& b) {
  if (!a || !b) return std::nullopt;
  struct statfs system {};
  struct stat first {
  }, second{};
  // There each process has an inode of its own, which no later one gets.
  if (fstatfs(a.get(), &system) == 0 && system.f_type == kPidfsMagic &&
      fstat(a.get(), &first) == 0 && fstat(b.get(), &second) == 0)
    return first.st_ino == second.st_ino;
  const long one = pidOf(a), other = pidOf(b);
  if (one == 0 || other == 0) return std::nullopt;
  return one > 0 && one == other;
}

}  // namespace hearth
