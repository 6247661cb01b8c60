#include "fuse/caller.h"

#include <fstream>
#include <string>

namespace hearth {

std::uint64_t callerOf(std::uint32_t thread, std::uint32_t user) {
  constexpr std::uint64_t kUser = std::uint64_t{1} << 32;
  if (thread == 0) return kUser | user;
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string word; status >> word;) {
    std::uint32_t process = 0;
    if (word == "Tgid:" && status >> process) return process;
  }
  return thread;
}

}  // namespace hearth
