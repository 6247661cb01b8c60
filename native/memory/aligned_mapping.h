// Where mappings of files of memory lie. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace hearth {

inline constexpr std::uint64_t kSmallPageBytes = 4096;
// Of pages that the kernel makes by itself out of ordinary ones.
inline constexpr std::uint64_t kTransparentPageBytes = std::uint64_t{2} << 20;

[[nodiscard]] inline std::uint64_t bytesToAlignment(const std::byte* address, std::uint64_t page) {
  return (page - reinterpret_cast<std::uintptr_t>(address) % page) % page;
}

// A mapping of a part of a file whose pages of 2 MiB lie at multiples of 2 MiB here too: else no
// large page of the file is one of the mapping's. Unmapped when it goes.
class AlignedMapping {
 public:
  // Shared, for reading and writing. `offset` is on a page of the file's; of huge pages
  // (MFD_HUGETLB) whole ones are mapped, and unless `untouched` the kernel sets those aside that
  // the file lacks; with it, pages that are not there must be touched by touchMemory() first.
  // kOutOfSpace, and what mmap(2) answers.
  [[nodiscard]] static Result<AlignedMapping> map(int file, std::uint64_t offset,
                                                  std::uint64_t bytes, bool untouched);
  // Of any file with small pages, with protection and flags as for mmap(2), which does not align
  // files of FUSE itself. Errors as above.
  [[nodiscard]] static Result<AlignedMapping> map(int file, std::uint64_t offset,
                                                  std::uint64_t bytes, int protection, int flags);
  AlignedMapping(AlignedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  AlignedMapping& operator=(AlignedMapping&&) = delete;
  ~AlignedMapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  // As mapped: whole pages.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // The caller unmaps it.
  [[nodiscard]] std::byte* release() { return std::exchange(data_, nullptr); }

 private:
  AlignedMapping(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace hearth
