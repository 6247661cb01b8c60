// Ends FUSE connections of a test program that dies while its own threads read from its mounts.
// Such a thread waits in the kernel for an answer, and cannot be killed; /dev/fuse, which would end
// its wait when it is closed, stays open for as long as the thread lives: the program would never
// go, and whoever waits for it would wait for ever.
#pragma once

#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>

namespace hearth::fuse_testing {

// The FUSE connections that have a mount in this mount namespace, by their device's minor number.
inline std::set<unsigned> connections() {
  std::set<unsigned> found;
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    unsigned device = 0;
    if (line.find(" - fuse") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%*u %*u %*u:%u", &device) == 1) found.insert(device);
  }
  return found;
}

// Ends all of them but `others`, which are not ours: a namespace begins as a copy of another.
inline void abortConnections(const std::set<unsigned>& others) {
  const std::string control = "/sys/fs/fuse/connections/";
  (void)mount("fusectl", control.c_str(), "fusectl", 0, nullptr);  // in this namespace alone
  for (const unsigned device : connections()) {
    if (others.contains(device)) continue;
    std::ofstream(control + std::to_string(device) + "/abort") << 1;
  }
}

// Starts a process, in a group of its own, that does so when the calling thread, the program's
// first, has ended. Before there are other threads, in a mount namespace of the program's own.
inline void guardConnections() {
  const std::set<unsigned> others = connections();
  const pid_t program = getpid();
  const pid_t guard = fork();
  if (guard != 0) {
    setpgid(guard, guard);
    return;
  }
  setpgid(0, 0);
  close_range(0, ~0U, 0);  // who reads our output must not wait for this one
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGUSR1);
  sigprocmask(SIG_BLOCK, &ended, nullptr);
  int number = 0;
  // Sent when the thread that forked us ends, before the last one of its program has.
  if (prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 &&
      (getppid() != program || sigwait(&ended, &number) == 0))
    abortConnections(others);
  _exit(0);
}

}  // namespace hearth::fuse_testing
