#include "base/page_cache.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace hearth {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

// cachestat(2) of Linux 6.5, which the headers of Debian 12 lack.
constexpr long kCachestat = 451;
struct CacheRange {
  std::uint64_t offset, bytes;
};
struct CacheStatistics {
  std::uint64_t cached, dirty, writeback, evicted, recentlyEvicted;
};

// RWF_NOWAIT starts to read what is missing, so no more than one byte is asked for.
bool isByteCached(int file, std::uint64_t offset) {
  std::byte probe{};
  const iovec part{&probe, 1};
  for (;;) {
    const ssize_t got = preadv2(file, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got >= 0 || errno != EINTR) return got > 0;
  }
}

}  // namespace

bool arePagesCached(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t first = offset / kPageBytes;
  const std::uint64_t pages = (offset + bytes + kPageBytes - 1) / kPageBytes - first;
  const CacheRange range{offset, bytes};
  CacheStatistics statistics{};
  if (syscall(kCachestat, file, &range, &statistics, 0U) == 0) return statistics.cached >= pages;
  return isByteCached(file, offset) && isByteCached(file, offset + bytes - 1);
}

}  // namespace hearth
