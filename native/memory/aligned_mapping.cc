#include "memory/aligned_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "memory/memory_touch.h"

namespace hearth {
namespace {

Error mappingError(std::uint64_t bytes) {
  const std::string what = "mapping " + std::to_string(bytes) + " bytes of memory";
  if (errno == ENOMEM) return {ErrorCode::kOutOfSpace, what + ": there is not so much"};
  return errnoError(errno, what);
}

// A place in which [at, at + bytes) is free, with `at` as far behind a multiple of `page` as
// `offset` is.
std::byte* reserve(std::uint64_t bytes, std::uint64_t page, std::uint64_t offset) {
  void* const all =
      ::mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto* const from = static_cast<std::byte*>(all);
  const std::uint64_t skip = (bytesToAlignment(from, page) + offset % page) % page;
  if (skip != 0) ::munmap(from, skip);
  ::munmap(from + skip + bytes, page - skip);
  return from + skip;
}

}  // namespace

Result<AlignedMapping> AlignedMapping::map(int file, std::uint64_t offset, std::uint64_t bytes,
                                           bool untouched) {
  const auto page = pageBytesOf(file);
  if (!page.ok()) return page.error();
  const std::uint64_t whole = (bytes + *page - 1) / *page * *page;
  const std::uint64_t aligned = std::max(*page, kTransparentPageBytes);
  std::byte* const place = whole == 0 ? nullptr : reserve(whole, aligned, offset);
  // Of none mmap(2) says what is wrong with it.
  if (place == nullptr && whole != 0) return mappingError(bytes);
  const int flags =
      MAP_SHARED | (untouched ? MAP_NORESERVE : 0) | (place != nullptr ? MAP_FIXED : 0);
  void* const data =
      ::mmap(place, whole, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    const Error error = mappingError(bytes);
    if (place != nullptr) ::munmap(place, whole);
    return error;
  }
  // Fewer and larger entries for processors; a kernel without them does as well.
  ::madvise(data, whole, MADV_HUGEPAGE);
  return AlignedMapping(static_cast<std::byte*>(data), whole);
}

Result<AlignedMapping> AlignedMapping::map(int file, std::uint64_t offset, std::uint64_t bytes,
                                           int protection, int flags) {
  const std::uint64_t whole = (bytes + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes;
  std::byte* const place = reserve(whole, kTransparentPageBytes, offset);
  if (place == nullptr) return mappingError(bytes);
  void* const data =
      ::mmap(place, whole, protection, flags | MAP_FIXED, file, static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    const Error error = mappingError(bytes);
    ::munmap(place, whole);
    return error;
  }
  return AlignedMapping(place, whole);
}

AlignedMapping::~AlignedMapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace hearth
