#include "fuse/read_ahead.h"

#include <algorithm>

namespace hearth {
namespace {

constexpr std::uint64_t kDisorder = 4ULL << 20;  // the kernel's read-ahead

}  // namespace

ReadAhead::Stream& ReadAhead::streamOf(std::uint64_t offset) {
  Stream* oldest = &streams_.front();
  for (Stream& stream : streams_) {
    if (stream.used != 0 && offset + kDisorder >= stream.next &&
        offset <= stream.next + kDisorder) {
      return stream;
    }
    if (stream.used < oldest->used) oldest = &stream;
  }
  *oldest = Stream{.next = offset, .hinted = offset};
  return *oldest;
}

std::optional<ReadAhead::Hint> ReadAhead::observe(std::uint64_t offset, std::uint32_t length,
                                                  std::uint64_t size,
                                                  const ReadAheadOptions& options) {
  if (whole_ || length == 0 || offset >= size) return std::nullopt;
  const std::uint64_t end = std::min(size, offset + length);
  Stream& stream = streamOf(offset);
  stream.used = ++clock_;
  stream.run += end - offset;
  stream.next = std::max(stream.next, end);
  if (options.wholeFileAfter != 0 && stream.run >= options.wholeFileAfter) {
    whole_ = true;
    const std::uint64_t from = std::max(stream.hinted, stream.next);
    if (from >= size) return std::nullopt;
    return Hint{from, size - from};
  }
  // One read proves nothing; a small step of a random reader is not a run.
  if (stream.run < options.firstWindow / 4 || stream.run == end - offset) return std::nullopt;
  // Ask for the next window when the reader is half through the last one.
  if (stream.next + stream.window / 2 < stream.hinted) return std::nullopt;
  stream.window =
      stream.window == 0 ? options.firstWindow : std::min(2 * stream.window, options.maxWindow);
  const std::uint64_t from = std::max(stream.hinted, stream.next);
  const std::uint64_t until = std::min(size, stream.next + stream.window);
  if (from >= until) return std::nullopt;
  stream.hinted = until;
  return Hint{from, until - from};
}

}  // namespace hearth
