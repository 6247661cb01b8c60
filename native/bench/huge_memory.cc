#include "bench/huge_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // of the kernel's headers since 6.1
#endif

namespace hearth::bench {

HugeMemory::HugeMemory(std::size_t bytes) {
  const std::size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const int ours = MAP_PRIVATE | MAP_ANONYMOUS;
  mappedBytes_ = rounded;
  // Populated: a page that is missing is an error here, and no SIGBUS later.
  mapping_ =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, ours | MAP_HUGETLB | MAP_POPULATE, -1, 0);
  std::size_t before = 0;
  if (mapping_ == MAP_FAILED) {
    mappedBytes_ = rounded + kPageBytes;
    mapping_ = mmap(nullptr, mappedBytes_, PROT_READ | PROT_WRITE, ours, -1, 0);
    if (mapping_ == MAP_FAILED) {
      std::perror("mmap");
      std::exit(1);
    }
    before = kPageBytes - reinterpret_cast<std::uintptr_t>(mapping_) % kPageBytes;
  }
  bytes_ = {static_cast<std::byte*>(mapping_) + before, bytes};
  if (before == 0) return;
  madvise(bytes_.data(), rounded, MADV_HUGEPAGE);
  std::memset(bytes_.data(), 0, rounded);
  pages_ = madvise(bytes_.data(), rounded, MADV_COLLAPSE) == 0 ? "collapsed" : "small";
}

HugeMemory::~HugeMemory() { munmap(mapping_, mappedBytes_); }

}  // namespace hearth::bench
