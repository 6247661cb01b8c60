// How many calls of each kind a volume's mounts have made on this node. One thread.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "volume/query_message.h"

namespace hearth {

struct CallCount {
  std::string_view name;
  std::uint64_t count = 0;
  // Ended with an errno of the volume's (EIO, ENOSPC, ETIMEDOUT), not of what was asked.
  std::uint64_t failed = 0;
  Clock::duration time{};

  void add(Clock::time_point begun, std::int32_t error) {
    ++count;
    if (error == EIO || error == ENOSPC || error == ETIMEDOUT) ++failed;
    time += Clock::now() - begun;
  }
};

// By the index of the change or the query.
struct CallCounts {
  std::array<CallCount, std::variant_size_v<tree::ClientChange>> changes{{{"create"},
                                                                          {"mkdir"},
                                                                          {"symlink"},
                                                                          {"unlink"},
                                                                          {"rmdir"},
                                                                          {"link"},
                                                                          {"rename"},
                                                                          {"setattr"},
                                                                          {"setxattr"},
                                                                          {"removexattr"},
                                                                          {"openforwriting"},
                                                                          {"publish"},
                                                                          {"endsession"}}};
  std::array<CallCount, std::variant_size_v<VolumeQuery>> queries{{{"lookup"},
                                                                   {"getattr"},
                                                                   {"open"},
                                                                   {"readdir"},
                                                                   {"readlink"},
                                                                   {"getxattr"},
                                                                   {"listxattr"},
                                                                   {"statfs"},
                                                                   {"exist"},
                                                                   {"agent"}}};
};

}  // namespace hearth
