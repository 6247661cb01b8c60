// When the cache does what it does in groups. Tests use smaller numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "reactor/reactor.h"

namespace hearth {

struct CacheTuning {
  // A group commit begins when this much is unclaimed, or this long after the first unclaimed
  // chunk.
  std::uint64_t commitBytes = std::uint64_t{64} << 20;
  std::size_t commitClaims = 256;
  Clock::duration commitDelay = std::chrono::milliseconds(500);
  // Files that others wrote are claimed so long after they were taken in: they may be gone by then,
  // and a burst of them leaves the disk to their writer.
  Clock::duration deferClaims = std::chrono::seconds(5);
  std::size_t mostDeferred = 4096;  // files, which stay open meanwhile
  // Writers wait for a commit when this much is unclaimed: each claim may hold a file open.
  std::uint64_t mostBytes = std::uint64_t{256} << 20;
  std::size_t mostClaims = 512;
  // A directory whose disk failed is tried again so often.
  Clock::duration retryDisk = std::chrono::seconds(1);
  // CacheDirectoryOptions::stall while a directory is opened, when nobody waits for its files and
  // large folders are listed.
  Clock::duration stallAtOpen = std::chrono::seconds(20);
  // The log is compacted when it is longer than this and more than half of it is dead.
  std::uint64_t compactFromBytes = std::uint64_t{1} << 20;
};

}  // namespace hearth
