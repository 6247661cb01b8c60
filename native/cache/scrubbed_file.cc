// OpenCacheFile: whole chunks and files are read from the disk and compared with their checksums.
#include <algorithm>
#include <cstdlib>

#include "base/crc32c.h"
#include "cache/open_cache_file.h"

namespace hearth {
namespace {

// Buffers of reads that go past the page cache begin and end at multiples of this.
constexpr std::size_t kDirectAlignment = 4096;
// Reads of one file under way while it is scrubbed: the disk works while checksums are computed.
constexpr std::uint32_t kScrubReads = 2;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// For a chunk of a file, as reads past the page cache want it.
struct ScrubBuffer {
  explicit ScrubBuffer(std::uint64_t fileSize)
      : length(allocatedBytes(std::min(fileSize, kChunkBytes))),
        memory(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, length))),
        bytes(memory.get(), length) {}
  const std::size_t length;
  const std::unique_ptr<std::byte, FreeMemory> memory;
  const std::span<std::byte> bytes;
};

}  // namespace

Task<Result<std::uint64_t>> OpenCacheFile::scrub(ScrubWatch watch) {
  const auto self = shared_from_this();
  if (entry_->residentBytes() == 0) co_return std::uint64_t{0};
  const auto file = co_await shard_.files.open(path(), {.direct = true});
  if (!file.ok()) co_return file.error();
  Scrub scrub{.status = {}, .watch = std::move(watch)};
  Gate readers(shard_.reactor);
  for (std::uint32_t i = 0; i < kScrubReads; ++i) readers.spawn(scrubChunks(*this, **file, scrub));
  co_await readers.close();
  if (!scrub.status.ok()) co_return scrub.status.error();
  // No scrub is reported whose findings a crash could undo.
  const Status retracted = co_await entry_->directory.settleRetractions(shard_.reactor);
  if (!retracted.ok()) co_return retracted.error();
  co_return scrub.good;
}

Task<Result<std::uint32_t>> OpenCacheFile::scrubChunk(std::uint32_t chunk) {
  const auto self = shared_from_this();
  if (!resident(chunk)) co_return 0u;
  const auto file = co_await shard_.files.open(path(), {.direct = true});
  if (!file.ok()) co_return file.error();
  const auto buffer = std::make_shared<const ScrubBuffer>(size());
  Scrub scrub{.status = {}, .watch = {}};
  const std::uint32_t bad = co_await checkChunk(**file, chunk, buffer->bytes, buffer, scrub);
  if (!scrub.status.ok()) co_return scrub.status.error();
  co_return bad;
}

Task<Status> OpenCacheFile::readChunk(std::uint32_t chunk, std::span<std::byte> into,
                                      std::shared_ptr<const void> keep) {
  const auto self = shared_from_this();
  if (!resident(chunk))
    co_return Error{ErrorCode::kNotFound,
                    "chunk " + std::to_string(chunk) + " of " + key().hex() + " is not resident"};
  if (chunkReader_ == nullptr) {
    Result<std::unique_ptr<File>> opened = co_await shard_.files.open(path(), {.direct = true});
    if (!opened.ok()) co_return opened.error();
    if (chunkReader_ == nullptr) chunkReader_ = std::move(*opened);  // else it was opened meanwhile
  }
  const std::size_t bytes = entry_->chunkBytes(chunk);
  const std::uint64_t offset = chunk * kChunkBytes;
  const std::span<std::byte> pages = into.first(allocatedBytes(bytes));
  Task<Result<std::size_t>> reading = keep == nullptr
                                          ? chunkReader_->readAt(pages, offset)
                                          : chunkReader_->readKept(pages, offset, std::move(keep));
  const Result<std::size_t> got = co_await reading;
  co_return judge(chunk, got, into.first(bytes));
}

// A chunk that cannot be read for want of memory, or for another passing reason, counts as good as
// before.
Status OpenCacheFile::judge(std::uint32_t chunk, const Result<std::size_t>& got,
                            std::span<const std::byte> bytes) {
  if (!got.ok() && got.code() != ErrorCode::kIoError) return got.error();
  if (got.ok() && *got >= bytes.size() && matches(chunk * kChunkBytes, bytes)) return {};
  if (entry_->resident(chunk)) spoil(chunk);
  return Error{ErrorCode::kCorrupt,
               "chunk " + std::to_string(chunk) + " of " + key().hex() +
                   (got.ok() ? " does not match its checksums" : " cannot be read") +
                   "; it will be fetched again"};
}

Status OpenCacheFile::readWhole(std::span<std::byte> into) {
  if (into.size() != size() || size() > kChunkBytes)
    return Error{ErrorCode::kInvalidArgument, key().hex() + " is not a file of so many bytes"};
  if (!residentRange(0, size()))
    return Error{ErrorCode::kNotFound, key().hex() + " is not resident"};
  const Result<File*> file = reader();
  if (!file.ok()) return file.error();
  const Result<std::size_t> got = (*file)->readWaiting(into, 0);
  return judge(0, got, into);
}

bool OpenCacheFile::matches(std::uint64_t offset, std::span<const std::byte> bytes) const {
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const auto chunk = static_cast<std::uint32_t>((offset + at) / kChunkBytes);
    const auto block = static_cast<std::uint32_t>((offset + at) % kChunkBytes / kBlockBytes);
    const auto part = bytes.subspan(at, std::min<std::size_t>(kBlockBytes, bytes.size() - at));
    if (crc32c(part) != entry_->blockChecksum(chunk, block)) return false;
  }
  return true;
}

Task<void> OpenCacheFile::scrubChunks(OpenCacheFile& self, File& file, Scrub& scrub) {
  CacheEntry& entry = *self.entry_;
  const auto buffer = std::make_shared<const ScrubBuffer>(self.size());
  while (scrub.next < entry.chunkCount() && scrub.status.ok()) {
    const std::uint32_t chunk = scrub.next++;
    if (!entry.resident(chunk)) continue;
    if (scrub.watch.pace) {
      Task<bool> pacing = scrub.watch.pace(entry.chunkBytes(chunk));
      if (!co_await pacing) co_return;
    }
    [[maybe_unused]] const std::uint32_t bad =
        co_await self.checkChunk(file, chunk, buffer->bytes, buffer, scrub);
  }
}

Task<std::uint32_t> OpenCacheFile::checkChunk(File& file, std::uint32_t chunk,
                                              std::span<std::byte> buffer,
                                              std::shared_ptr<const void> keep, Scrub& scrub) {
  const Result<std::size_t> count =
      co_await file.readKept(buffer, chunk * kChunkBytes, std::move(keep));
  // A disk that hangs says nothing about the bytes.
  if (count.code() == ErrorCode::kUnavailable) {
    scrub.status = count.error();
    co_return 0u;
  }
  const std::size_t expected = entry_->chunkBytes(chunk);
  const std::size_t got = count.ok() ? std::min(*count, expected) : 0;
  std::uint32_t bad = 0;
  for (std::size_t at = 0; at < expected; at += kBlockBytes) {
    const std::size_t blockLength = std::min<std::size_t>(kBlockBytes, expected - at);
    const auto block = static_cast<std::uint32_t>(at / kBlockBytes);
    const bool good = at + blockLength <= got && crc32c(buffer.subspan(at, blockLength)) ==
                                                     entry_->blockChecksum(chunk, block);
    bad += good ? 0 : 1;
    if (good) scrub.good += blockLength;
    if (good && scrub.watch.checked != nullptr) scrub.watch.checked->fetch_add(blockLength);
    if (good) continue;
    if (scrub.watch.bad) scrub.watch.bad(std::uint64_t{chunk} * kBlocksPerChunk + block);
    if (entry_->resident(chunk)) spoil(chunk);
  }
  co_return bad;
}

}  // namespace hearth
