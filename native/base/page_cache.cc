#include "base/page_cache.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

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

// Files of a FUSE mount that are open by passthrough have no pages of their own: the kernel reads
// and maps a backing file, which cachestat(2) does not look at.
bool isOnFuse(int file) {
  constexpr long kFuseMagic = 0x65735546;
  struct statfs about {};
  return fstatfs(file, &about) == 0 && about.f_type == kFuseMagic;
}

// By a mapping, which has the pages of the backing file. mincore(2) calls all of them resident to
// users that may not know, so only root believes it.
bool arePagesMapped(int file, std::uint64_t first, std::uint64_t pages) {
  if (geteuid() != 0) return false;
  void* const data = mmap(nullptr, pages * kPageBytes, PROT_READ, MAP_SHARED, file,
                          static_cast<off_t>(first * kPageBytes));
  if (data == MAP_FAILED) return false;
  std::vector<unsigned char> resident(pages);
  const bool isKnown = mincore(data, pages * kPageBytes, resident.data()) == 0;
  munmap(data, pages * kPageBytes);
  return isKnown &&
         std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; });
}

}  // namespace

bool arePagesCached(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t first = offset / kPageBytes;
  const std::uint64_t pages = (offset + bytes + kPageBytes - 1) / kPageBytes - first;
  const CacheRange range{offset, bytes};
  CacheStatistics statistics{};
  if (syscall(kCachestat, file, &range, &statistics, 0U) == 0) {
    return statistics.cached >= pages || (isOnFuse(file) && arePagesMapped(file, first, pages));
  }
  return isByteCached(file, offset) && isByteCached(file, offset + bytes - 1);
}

}  // namespace hearth
