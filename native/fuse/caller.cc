#include "fuse/caller.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace hearth {

std::uint64_t callerOf(std::uint32_t thread, std::uint32_t user) {
  constexpr std::uint64_t kUser = std::uint64_t{1} << 32;
  if (thread == 0) return kUser | user;
  // Of its process's first thread, which most are, or EINVAL (ENOENT since Linux 6.15).
  const auto first = static_cast<int>(::syscall(SYS_pidfd_open, thread, 0));
  if (first >= 0) {
    ::close(first);
    return thread;
  }
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  // By lines: the first one has the thread's name, which is whatever it says, but has no newline.
  constexpr std::string_view kProcess = "Tgid:";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kProcess)) continue;
    std::uint32_t process = 0;
    if (std::istringstream(line.substr(kProcess.size())) >> process) return process;
  }
  return thread;
}

}  // namespace hearth
