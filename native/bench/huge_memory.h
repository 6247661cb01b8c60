// Memory that a processor reaches by few entries of its TLB, as an arena of an agent is: what two
// programs measure with it differs by the programs, and not by their pages. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace hearth::bench {

class HugeMemory {
 public:
  static constexpr std::size_t kPageBytes = 2u << 20;

  // Huge pages that the administrator has set apart (vm.nr_hugepages), else 2 MiB aligned memory
  // that the kernel collapses into huge pages (MADV_COLLAPSE; Linux 6.1). The constructor touches
  // all of it and ends the program where there is no memory.
  explicit HugeMemory(std::size_t bytes);
  ~HugeMemory();
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  // "hugetlb", "collapsed", or "small" where the kernel has refused both.
  [[nodiscard]] const char* pages() const { return pages_; }

 private:
  void* mapping_;
  std::size_t mappedBytes_;
  std::span<std::byte> bytes_;
  const char* pages_ = "hugetlb";
};

}  // namespace hearth::bench
