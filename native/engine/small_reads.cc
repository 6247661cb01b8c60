#include "engine/small_reads.h"

#include <algorithm>

namespace hearth {

std::shared_ptr<const std::byte[]> SmallReads::read(CachedFile& file, std::uint64_t offset,
                                                    std::uint64_t length) {
  const std::uint64_t blocks = (length + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const std::uint64_t size = std::min(blocks, file.size() - offset);
  if (size > kMaxBytes || *copied_ + size > kMaxCopied) return nullptr;
  *copied_ += size;
  const auto give = [copied = copied_, size](const std::byte* bytes) {
    delete[] bytes;
    *copied -= size;
  };
  // Uninitialised, unlike a vector.
  std::byte* const bytes = new std::byte[size];
  std::shared_ptr<const std::byte[]> copy(bytes, give);
  return file.verifiedInMemory(offset, {bytes, size}) ? copy : nullptr;
}

void SmallReads::keepOpen(const std::shared_ptr<CachedFile>& file, std::uint64_t length) {
  if (length > kMaxBytes) return;
  const Clock::time_point until = Clock::now() + kKeptOpen;
  const auto same = [&](const Open& each) { return each.file == file; };
  if (const auto found = std::find_if(open_.begin(), open_.end(), same); found != open_.end()) {
    found->until = until;
    return;
  }
  if (open_.size() == kMaxOpen) {
    *std::min_element(open_.begin(), open_.end(), [](const Open& a, const Open& b) {
      return a.until < b.until;
    }) = {file, until};
    return;
  }
  open_.push_back({file, until});
  if (open_.size() == 1) timer_.start(until, [this] { closeIdle(); });
}

void SmallReads::closeIdle() {
  const Clock::time_point now = Clock::now();
  std::erase_if(open_, [now](const Open& each) { return each.until <= now; });
  if (open_.empty()) return;
  Clock::time_point next = Clock::time_point::max();
  for (const Open& each : open_) next = std::min(next, each.until);
  timer_.start(next, [this] { closeIdle(); });
}

void SmallReads::forget(const ContentKey& key) {
  std::erase_if(open_, [&](const Open& each) { return each.file->key() == key; });
  if (open_.empty()) timer_.cancel();
}

void SmallReads::clear() {
  open_.clear();
  timer_.cancel();
}

}  // namespace hearth
