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
  *oldest = Stream{.begin = offset, .next = offset, .hinted = offset, .loaded = offset};
  return *oldest;
}

ReadAhead::Wanted ReadAhead::observe(std::uint64_t offset, std::uint32_t length, std::uint64_t size,
                                     const ReadAheadOptions& options) {
  if (length == 0 || offset >= size) return {};
  const std::uint64_t end = std::min(size, offset + length);
  Stream& stream = streamOf(offset);
  stream.used = ++clock_;
  stream.run += end - offset;
  stream.next = std::max(stream.next, end);
  // One read proves nothing; a small step of a random reader is not a run.
  const bool inOrder = stream.run >= options.firstWindow / 4 && stream.run != end - offset;
  const bool wholeFile = options.wholeFileAfter != 0 && stream.run >= options.wholeFileAfter;
  Wanted wanted;
  if (!whole_ && (inOrder || wholeFile)) wanted.fetch = toFetch(stream, size, options);
  // A sparse reader would otherwise have its whole way read from the disk.
  const bool dense = 2 * stream.run >= stream.next - std::min(stream.begin, stream.next);
  if (inOrder && dense) wanted.load = toLoad(stream, size, options);
  return wanted;
}

std::optional<ReadAhead::Hint> ReadAhead::toFetch(Stream& stream, std::uint64_t size,
                                                  const ReadAheadOptions& options) {
  const std::uint64_t from = std::max(stream.hinted, stream.next);
  whole_ = options.wholeFileAfter != 0 && stream.run >= options.wholeFileAfter;
  if (whole_) return from < size ? std::optional(Hint{from, size - from}) : std::nullopt;
  // Ask for the next window when the reader is half through the last one.
  if (stream.next + stream.window / 2 < stream.hinted) return std::nullopt;
  stream.window =
      stream.window == 0 ? options.firstWindow : std::min(2 * stream.window, options.maxWindow);
  const std::uint64_t until = std::min(size, stream.next + stream.window);
  if (from >= until) return std::nullopt;
  stream.hinted = until;
  return Hint{from, until - from};
}

// As far ahead as the reader has come in order.
std::optional<ReadAhead::Hint> ReadAhead::toLoad(Stream& stream, std::uint64_t size,
                                                 const ReadAheadOptions& options) {
  const std::uint64_t window =
      std::min(std::max(stream.run, options.firstWindow), options.loadWindow);
  if (window == 0 || stream.next + window / 2 < stream.loaded) return std::nullopt;
  const std::uint64_t from = std::max(stream.loaded, stream.next);
  const std::uint64_t until = std::min(size, stream.next + window);
  if (from >= until) return std::nullopt;
  stream.loaded = until;
  return Hint{from, until - from};
}

}  // namespace hearth
