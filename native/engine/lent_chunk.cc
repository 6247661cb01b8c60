#include "engine/lent_chunk.h"

#include "cache/verified_read.h"

namespace hearth {

LentPayload::Piece LentChunk::now() {
  const std::lock_guard lock(mutex_);
  if (loaded_) {
    return {loaded_->bytes.subspan(offset_ % kChunkBytes, length_), LoadedChunk::sendFrom(loaded_)};
  }
  if (!verified_.empty()) return {verified_, file_};
  return {};
}

Task<bool> LentChunk::borrowAgain() {
  const auto chunk = static_cast<std::uint32_t>(offset_ / kChunkBytes);
  co_await lender_.reactor.enter();
  std::shared_ptr<LoadedChunk> loaded = lender_.memory.find(file_->key(), chunk);
  if (loaded == nullptr && !file_->resident(chunk)) {
    loaded = memory_.lock();
    if (loaded != nullptr) lender_.memory.noteLent(loaded);
  }
  const bool there = loaded != nullptr;
  if (there) {
    loaded->lend(shared_from_this(), Clock::now());
    // Under the lock, before the chunk can be taken back once more.
    const std::lock_guard lock(mutex_);
    loaded_ = std::move(loaded);
  }
  co_await asker_.answering.enter();
  co_return there;
}

Task<Status> LentChunk::load() {
  Task<bool> borrowing = borrowAgain();
  if (co_await borrowing) co_return Status();
  auto wanted = [interest = asker_.interest] { return interest.lives(); };
  Task<bool> passing = lender_.disk.passWhile(asker_.answering, length_,
                                              priorityOf(asker_.interest), std::move(wanted));
  if (!co_await passing) co_return Error{ErrorCode::kCancelled, "the asker has gone"};
  Task<Result<std::span<const std::byte>>> reading = readVerified(file_, offset_, length_);
  const Result<std::span<const std::byte>> bytes = co_await reading;
  if (!bytes.ok()) co_return bytes.error();
  const std::lock_guard lock(mutex_);
  verified_ = *bytes;
  co_return Status();
}

void LentChunk::release() {
  std::shared_ptr<LoadedChunk> last;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  last.swap(loaded_);
}

}  // namespace hearth
