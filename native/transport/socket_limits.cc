#include "transport/socket_limits.h"

#include <sys/resource.h>

namespace hearth {

std::uint64_t openFileLimit() {
  constexpr std::uint64_t kOfEverySystem = 1024;
  rlimit files{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur : kOfEverySystem;
}

}  // namespace hearth
