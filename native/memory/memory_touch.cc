#include "memory/memory_touch.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

// linux/mman.h of Debian 12 has both, glibc 2.36 only the first.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kCollapse = 25;       // MADV_COLLAPSE, Linux 6.1
// MADV_COLLAPSE has work for all processors at its begin, so it is called for many pages at once.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

Status populate(std::byte* from, std::uint64_t bytes) {
  int done = 0;
  do {
    done = ::madvise(from, bytes, kPopulateWrite);
  } while (done != 0 && errno == EINTR);
  if (done == 0) return {};
  if (errno == ENOMEM || errno == EFAULT) {
    return Error{ErrorCode::kOutOfSpace,
                 "touching " + std::to_string(bytes) + " bytes of memory: there is not so much"};
  }
  return errnoError(errno, "touching memory");
}

// Without MADV_POPULATE_WRITE pages are taken by fallocate(2), which makes no transparent ones.
bool populates(std::byte* page) { return populate(page, kSmallPageBytes).ok() || errno != EINVAL; }

// Bytes of whole pages of 2 MiB in [from, from + bytes), which is populated afterwards.
Result<std::uint64_t> touchPiece(std::byte* from, std::uint64_t bytes) {
  const std::uint64_t before = bytesToAlignment(from, kTransparentPageBytes);
  const std::uint64_t pages = bytes <= before ? 0 : (bytes - before) / kTransparentPageBytes;
  // A page of 2 MiB is made of what is there, and not of nothing.
  for (std::uint64_t i = 0; i < pages; ++i) {
    Status first = populate(from + before + i * kTransparentPageBytes, kSmallPageBytes);
    if (!first.ok()) return first.error();
  }
  std::uint64_t huge = pages * kTransparentPageBytes;
  if (pages != 0 && ::madvise(from + before, huge, kCollapse) != 0) {
    huge = 0;
    for (std::uint64_t i = 0; i < pages; ++i) {
      std::byte* const page = from + before + i * kTransparentPageBytes;
      if (::madvise(page, kTransparentPageBytes, kCollapse) == 0) huge += kTransparentPageBytes;
    }
  }
  if (huge != bytes) {
    if (Status rest = populate(from, bytes); !rest.ok()) return rest.error();
  }
  return huge;
}

Error missingPages(std::uint64_t missing, std::uint64_t page) {
  const std::string size = page >= (std::uint64_t{1} << 30) ? std::to_string(page >> 30) + " GiB"
                                                            : std::to_string(page >> 20) + " MiB";
  const std::string resource = page >= (std::uint64_t{1} << 30) ? "hugepages-1Gi" : "hugepages-2Mi";
  const bool one = missing == 1;
  return {ErrorCode::kOutOfSpace,
          std::to_string(missing) + " huge page" + (one ? "" : "s") + " of " + size +
              (one ? " is" : " are") +
              " missing; set more apart (sysctl vm.nr_hugepages, or hugepages= at boot), and in a "
              "pod request as many (" +
              resource + ")"};
}

// One page at a time: what is there by the first error is known.
Result<TouchedMemory> touchHugePages(int file, std::uint64_t offset, std::uint64_t bytes,
                                     std::uint64_t page) {
  for (std::uint64_t done = 0; done < bytes; done += page) {
    int answer = 0;
    do {
      answer = ::fallocate(file, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + done),
                           static_cast<off_t>(page));
    } while (answer != 0 && errno == EINTR);
    if (answer == 0) continue;
    if (errno == ENOSPC || errno == ENOMEM) return missingPages((bytes - done) / page, page);
    return errnoError(errno, "touching huge pages");
  }
  return TouchedMemory{bytes};
}

Result<TouchedMemory> touchSmallPages(int file, std::uint64_t offset, std::uint64_t bytes) {
  auto mapping = AlignedMapping::map(file, offset, bytes, true);
  if (!mapping.ok()) return mapping.error();
  if (!populates(mapping->data())) {
    if (::fallocate(file, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes)) != 0)
      return errnoError(errno, "touching memory");
    return TouchedMemory{};
  }
  TouchedMemory touched;
  for (std::uint64_t done = 0; done < bytes; done += kPieceBytes) {
    const auto huge = touchPiece(mapping->data() + done, std::min(kPieceBytes, bytes - done));
    if (!huge.ok()) return huge.error();
    touched.hugeBytes += *huge;
  }
  return touched;
}

}  // namespace

Result<std::uint64_t> pageBytesOf(int file) {
  struct statfs about {};
  if (::fstatfs(file, &about) != 0) return errnoError(errno, "looking at a file of memory");
  if (about.f_type != HUGETLBFS_MAGIC) return kSmallPageBytes;
  return static_cast<std::uint64_t>(about.f_bsize);
}

Result<TouchedMemory> touchMemory(int file, std::uint64_t offset, std::uint64_t bytes) {
  const auto page = pageBytesOf(file);
  if (!page.ok()) return page.error();
  struct stat about {};
  if (::fstat(file, &about) != 0) return errnoError(errno, "looking at a file of memory");
  const auto length = static_cast<std::uint64_t>(about.st_size);
  const std::uint64_t size = length + (*page - length % *page) % *page;
  const bool inside = offset <= size && bytes <= size - offset;
  if (!inside || offset % *page != 0 || bytes % *page != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "memory is to be touched that is not inside its file, or not whole pages of it"};
  }
  if (bytes == 0) return TouchedMemory{};
  return *page == kSmallPageBytes ? touchSmallPages(file, offset, bytes)
                                  : touchHugePages(file, offset, bytes, *page);
}

}  // namespace hearth
