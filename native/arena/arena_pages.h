// Which pages an arena is made of, and why not of better ones. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// From the worst to the best.
enum class ArenaPageKind {
  kSmall,
  kTransparent,  // 2 MiB, which the kernel makes of small ones where it has such room
  kHuge2M,       // set apart by the administrator
  kHuge1G,
};

struct ArenaPages {
  ArenaPageKind kind = ArenaPageKind::kSmall;
  // Why not better ones, a sentence for people; empty when there are none.
  std::string reason;
  // Why they come from whichever NUMA node has some; empty when each region's come from its own,
  // as far as that has them.
  std::string unplaced = {};
};

// "small", "transparent", "huge-2Mi", "huge-1Gi".
[[nodiscard]] std::string_view arenaPageKindName(ArenaPageKind kind);
// 4 KiB, 2 MiB, 2 MiB, 1 GiB.
[[nodiscard]] std::uint64_t arenaPageBytes(ArenaPageKind kind);

// The pages that an arena asking for `best` would get: takes the memory of one page of each kind
// for a moment and gives it back. Milliseconds.
[[nodiscard]] ArenaPages probeArenaPages(ArenaPageKind best = ArenaPageKind::kHuge1G);

// Nothing when the kernel makes transparent pages of memory in files, which is tried on 2 MiB of
// it and looked up in /proc/self/smaps; else why not.
[[nodiscard]] Status transparentPagesWork();

// An empty file of memory of such pages, `bytes` long (whole pages of them), sealed against
// shrinking and growing; no room is taken. kOutOfSpace or kUnsupported when there are no such
// pages on this machine.
[[nodiscard]] Result<OwnedFd> makeArenaFile(ArenaPageKind kind, std::uint64_t bytes);

}  // namespace hearth
