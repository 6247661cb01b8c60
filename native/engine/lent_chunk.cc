#include "engine/lent_chunk.h"

#include "cache/verified_read.h"

namespace hearth {

LentPayload::Piece LentChunk::now() {
  const std::lock_guard lock(mutex_);
  if (loaded_) return {loaded_->bytes.subspan(offset_ % kChunkBytes, length_), loaded_};
  if (!verified_.empty()) return {verified_, file_};
  return {};
}

Task<Status> LentChunk::load() {
  Task<Result<std::span<const std::byte>>> reading =
      readVerified(reactor_, file_, offset_, length_);
  const Result<std::span<const std::byte>> bytes = co_await reading;
  if (!bytes.ok()) co_return bytes.error();
  const std::lock_guard lock(mutex_);
  verified_ = *bytes;
  co_return Status();
}

void LentChunk::release() {
  std::shared_ptr<LoadedChunk> last;  // goes after the lock
  const std::lock_guard lock(mutex_);
  last.swap(loaded_);
}

}  // namespace hearth
