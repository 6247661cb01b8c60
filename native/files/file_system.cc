#include "files/file_system.h"

namespace hearth {

Task<Result<std::size_t>> File::readKept(std::span<std::byte> into, std::uint64_t offset,
                                         std::shared_ptr<const void> keep) {
  const Result<std::size_t> count = co_await readAt(into, offset);
  keep.reset();
  co_return count;
}

Task<Status> File::writeKept(std::span<const std::byte> from, std::uint64_t offset,
                             std::shared_ptr<const void> keep) {
  const Status written = co_await writeAt(from, offset);
  keep.reset();
  co_return written;
}

}  // namespace hearth
