#include "sessions/published_files.h"

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "base/generated/constants.h"

namespace hearth {
namespace {

// Bytes read; fewer at the end of the file.
Result<std::size_t> readAll(int descriptor, std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = ::pread(descriptor, into.data() + done, into.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "reading a published file");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

Error changed() {
  return {ErrorCode::kTryElsewhere, "the file was written to since it was published"};
}

}  // namespace

Status readPublished(const PublishedFile& file, std::uint64_t offset, std::span<std::byte> into) {
  const std::size_t whole = into.size() / kBlockBytes * kBlockBytes;
  const bool ends = offset + into.size() == file.size;
  const std::span<std::byte> blocks = ends ? into : into.first(whole);
  const Result<std::size_t> got = readAll(file.file.get(), blocks, offset);
  if (!got.ok()) return got.error();
  if (*got != blocks.size()) return changed();
  const std::vector<std::uint32_t> sums = crc32cOfBlocks(blocks, kBlockBytes);
  const std::size_t first = offset / kBlockBytes;
  if (!std::equal(sums.begin(), sums.end(),
                  file.blockChecksums.begin() + static_cast<std::ptrdiff_t>(first)))
    return changed();
  const std::span<std::byte> rest = into.subspan(blocks.size());
  if (rest.empty()) return {};
  // Only whole blocks have checksums.
  const std::uint64_t at = offset + blocks.size();
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlockBytes, file.size - at));
  const Result<std::size_t> last = readAll(file.file.get(), block, at);
  if (!last.ok()) return last.error();
  if (*last != block.size() || crc32c(block) != file.blockChecksums[first + sums.size()])
    return changed();
  std::copy_n(block.begin(), rest.size(), rest.begin());
  return {};
}

}  // namespace hearth
