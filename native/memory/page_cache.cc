#include "memory/page_cache.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

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

// MADV_POPULATE_READ of Linux 5.14.
constexpr int kPopulateRead = 22;

bool areResident(std::byte* data, std::uint64_t pages) {
  std::vector<unsigned char> resident(pages);
  return mincore(data, pages * kSmallPageBytes, resident.data()) == 0 &&
         std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; });
}

// By a mapping, which has the pages of the backing file. mincore(2) calls all of them resident to
// users that may not know, so only root believes it. Mapping the first page of a huge page maps all
// of it, which spares mincore(2) a search for each of its 512 pages.
bool arePagesMapped(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (geteuid() != 0) return false;
  const std::uint64_t begin = offset / kSmallPageBytes * kSmallPageBytes, end = offset + bytes;
  const auto mapping = AlignedMapping::map(file, begin, end - begin, PROT_READ, MAP_SHARED);
  if (!mapping.ok()) return false;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t next =
        std::min(end, (at / kTransparentPageBytes + 1) * kTransparentPageBytes);
    std::byte* const data = mapping->data() + (at - begin);
    if (!areResident(data, 1)) return false;
    madvise(data, kSmallPageBytes, kPopulateRead);
    if (!areResident(data, (next - at + kSmallPageBytes - 1) / kSmallPageBytes)) return false;
    at = next;
  }
  return true;
}

}  // namespace

bool arePagesCached(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::uint64_t first = offset / kSmallPageBytes;
  const std::uint64_t pages = (offset + bytes + kSmallPageBytes - 1) / kSmallPageBytes - first;
  const CacheRange range{offset, bytes};
  CacheStatistics statistics{};
  if (syscall(kCachestat, file, &range, &statistics, 0U) == 0) {
    return statistics.cached >= pages || (isOnFuse(file) && arePagesMapped(file, offset, bytes));
  }
  return isByteCached(file, offset) && isByteCached(file, offset + bytes - 1);
}

}  // namespace hearth
