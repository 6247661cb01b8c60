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

// MADV_POPULATE_READ of Linux 5.14; before, pages come when they are touched.
constexpr int kPopulateRead = 22;

bool areResident(std::byte* data, std::uint64_t pages) {
  std::vector<unsigned char> resident(pages);
  return mincore(data, pages * kSmallPageBytes, resident.data()) == 0 &&
         std::ranges::all_of(resident, [](unsigned char page) { return (page & 1) != 0; });
}

enum class Cached { kAll, kNotAll, kOnlyMappingsTell };

Cached lookUp(int file, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = offset / kSmallPageBytes;
  const std::uint64_t pages = (offset + bytes + kSmallPageBytes - 1) / kSmallPageBytes - first;
  const CacheRange range{offset, bytes};
  CacheStatistics statistics{};
  if (syscall(kCachestat, file, &range, &statistics, 0U) == 0) {
    if (statistics.cached >= pages) return Cached::kAll;
    // mincore(2) calls all pages resident to users that may not know.
    return isOnFuse(file) && geteuid() == 0 ? Cached::kOnlyMappingsTell : Cached::kNotAll;
  }
  const bool isGuessed = isByteCached(file, offset) && isByteCached(file, offset + bytes - 1);
  return isGuessed ? Cached::kAll : Cached::kNotAll;
}

// Of a mapping, which has the pages of the backing file. Mapping the first page of a huge page maps
// all of it, which spares mincore(2) a search for each of its 512 pages. `at` is a page of the
// file, and `data` where it is mapped.
bool areMappedPagesCached(std::byte* data, std::uint64_t at, std::uint64_t end) {
  while (at < end) {
    const std::uint64_t next =
        std::min(end, (at / kTransparentPageBytes + 1) * kTransparentPageBytes);
    if (!areResident(data, 1)) return false;
    madvise(data, kSmallPageBytes, kPopulateRead);
    if (!areResident(data, (next - at + kSmallPageBytes - 1) / kSmallPageBytes)) return false;
    data += next - at;
    at = next;
  }
  return true;
}

std::uint64_t pageOf(std::uint64_t offset) { return offset / kSmallPageBytes * kSmallPageBytes; }

}  // namespace

bool arePagesCached(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const Cached cached = lookUp(file, offset, bytes);
  if (cached != Cached::kOnlyMappingsTell) return cached == Cached::kAll;
  const std::uint64_t begin = pageOf(offset), end = offset + bytes;
  const auto mapping = AlignedMapping::map(file, begin, end - begin, PROT_READ, MAP_SHARED);
  return mapping.ok() && areMappedPagesCached(mapping->data(), begin, end);
}

bool populateCachedPages(int file, const AlignedMapping& mapping, std::uint64_t offset,
                         std::uint64_t bytes) {
  if (bytes == 0) return true;
  const Cached cached = lookUp(file, offset, bytes);
  const std::uint64_t begin = pageOf(offset), end = offset + bytes;
  std::byte* const data = mapping.data() + begin;
  if (cached == Cached::kNotAll) return false;
  if (cached == Cached::kOnlyMappingsTell && !areMappedPagesCached(data, begin, end)) return false;
  madvise(data, end - begin, kPopulateRead);
  return true;
}

}  // namespace hearth
