#include "arena/arena_pages.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>

#include "memory/aligned_mapping.h"
#include "memory/memory_touch.h"

namespace hearth {
namespace {

bool isHuge(ArenaPageKind kind) { return kind >= ArenaPageKind::kHuge2M; }

// A row of /proc/PID/smaps (proc_pid_smaps(5)) of the mapping that begins at `address`, in KiB.
std::uint64_t mappedByLargePages(const std::byte* address) {
  std::array<char, 17> digits{};
  std::to_chars(digits.data(), digits.data() + 16, reinterpret_cast<std::uintptr_t>(address), 16);
  const std::string begin = std::string(digits.data()) + "-";
  std::ifstream file("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    const bool heads = line.find('-') < line.find(' ');
    if (heads) here = line.starts_with(begin);
    constexpr std::string_view kRow = "ShmemPmdMapped:";
    if (here && line.starts_with(kRow)) return std::stoull(line.substr(kRow.size()));
  }
  return 0;
}

Status probeHuge(ArenaPageKind kind) {
  const auto file = makeArenaFile(kind, arenaPageBytes(kind));
  if (!file.ok()) return file.error();
  const auto touched = touchMemory(file->get(), 0, arenaPageBytes(kind));
  return touched.ok() ? Status() : Status(touched.error());
}

}  // namespace

std::string_view arenaPageKindName(ArenaPageKind kind) {
  switch (kind) {
    case ArenaPageKind::kSmall:
      return "small";
    case ArenaPageKind::kTransparent:
      return "transparent";
    case ArenaPageKind::kHuge2M:
      return "huge-2Mi";
    case ArenaPageKind::kHuge1G:
      return "huge-1Gi";
  }
  return "small";
}

std::uint64_t arenaPageBytes(ArenaPageKind kind) {
  switch (kind) {
    case ArenaPageKind::kSmall:
      return kSmallPageBytes;
    case ArenaPageKind::kTransparent:
    case ArenaPageKind::kHuge2M:
      return kTransparentPageBytes;
    case ArenaPageKind::kHuge1G:
      return std::uint64_t{1} << 30;
  }
  return kSmallPageBytes;
}

Result<OwnedFd> makeArenaFile(ArenaPageKind kind, std::uint64_t bytes) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  if (isHuge(kind)) flags |= MFD_HUGETLB;
  if (kind == ArenaPageKind::kHuge2M) flags |= static_cast<unsigned>(MFD_HUGE_2MB);
  if (kind == ArenaPageKind::kHuge1G) flags |= static_cast<unsigned>(MFD_HUGE_1GB);
  OwnedFd file(::memfd_create("hearth-arena", flags));
  const std::string what = "making an arena of " + std::string(arenaPageKindName(kind)) + " pages";
  if (!file && isHuge(kind) && (errno == ENODEV || errno == EINVAL || errno == ENOSYS)) {
    return Error{ErrorCode::kUnsupported,
                 what + ": this kernel has none of that size; see /sys/kernel/mm/hugepages"};
  }
  if (!file) return errnoError(errno, what);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return errnoError(errno, what);
  return file;
}

Status transparentPagesWork() {
  const auto file = makeArenaFile(ArenaPageKind::kTransparent, kTransparentPageBytes);
  if (!file.ok()) return file.error();
  const auto touched = touchMemory(file->get(), 0, kTransparentPageBytes);
  if (!touched.ok()) return touched.error();
  const auto mapping = AlignedMapping::map(file->get(), 0, kTransparentPageBytes, true);
  if (!mapping.ok()) return mapping.error();
  if (touched->hugeBytes != kTransparentPageBytes) {
    return Error{ErrorCode::kUnsupported,
                 "the kernel makes no large pages of shared memory when asked to (MADV_COLLAPSE, "
                 "Linux 6.1), or has no 2 MiB of it together; run a later kernel with "
                 "CONFIG_TRANSPARENT_HUGEPAGE"};
  }
  *mapping->data() = std::byte{1};
  if (mappedByLargePages(mapping->data()) * 1024 == kTransparentPageBytes) return {};
  return Error{ErrorCode::kUnsupported,
               "the kernel says that it made a large page of shared memory and maps small ones "
               "(ShmemPmdMapped in /proc/self/smaps)"};
}

ArenaPages probeArenaPages(ArenaPageKind best) {
  std::string reason;
  const auto add = [&reason](const Status& failed) {
    reason += (reason.empty() ? "" : "; ") + failed.error().message;
  };
  for (const auto kind : {ArenaPageKind::kHuge1G, ArenaPageKind::kHuge2M}) {
    if (kind > best) continue;
    const Status tried = probeHuge(kind);
    if (tried.ok()) return {kind, reason};
    add(tried);
  }
  if (best < ArenaPageKind::kTransparent) return {ArenaPageKind::kSmall, "small pages are wanted"};
  const Status tried = transparentPagesWork();
  if (tried.ok()) return {ArenaPageKind::kTransparent, reason};
  add(tried);
  return {ArenaPageKind::kSmall, reason};
}

}  // namespace hearth
