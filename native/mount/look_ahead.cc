#include "mount/look_ahead.h"

#include <algorithm>

namespace hearth {

std::vector<LookAhead::Part> LookAhead::reach(
    const std::shared_ptr<FileFetch>& fetch,
    const std::function<bool(const ManifestEntry&)>& here) {
  const FileReference& file = fetch->reference;
  const std::uint32_t entry = file.about.index;
  const ManifestEntry folder = file.dataset->manifest->entry(file.about.parent);
  const std::uint32_t last = folder.firstChild + folder.childCount;
  std::vector<Part> parts;
  const std::lock_guard lock(mutex_);
  if (entry < reached_) return parts;
  at_ = fetch;
  reached_ = entry + 1;
  end_ = std::max(end_, reached_);
  while (!ahead_.empty() && ahead_.front().entry < reached_) {
    bytes_ -= ahead_.front().length;
    ahead_.pop_front();
  }
  // Expects many files at a time, as each batch wakes a shard and a helper.
  if (ahead_.size() > files_ / 2) return parts;
  const std::uint32_t until = end_ + std::min(last - std::min(last, end_), kMaxPassed);
  for (; end_ < until && ahead_.size() < files_ && bytes_ < kBytes; ++end_) {
    FileReference next = FileReference::of(file.dataset, end_);
    if (!hasBytes(next.about)) continue;
    const std::uint64_t length = here(next.about) ? 0 : std::min(kBytes - bytes_, next.about.size);
    bytes_ += length;
    ahead_.push_back({end_, length});
    if (length != 0) parts.push_back({std::move(next), length});
  }
  files_ = std::min(2 * files_, kFiles);
  return parts;
}

bool LookAhead::before(std::uint32_t entry) const {
  const std::lock_guard lock(mutex_);
  return reached_ <= entry;
}

bool LookAhead::justPassed(std::uint32_t entry) const {
  const std::lock_guard lock(mutex_);
  return entry < reached_ && reached_ - entry <= kFiles;
}

bool LookAhead::reading() const {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<FileFetch> at = at_.lock();
  return at != nullptr && at->readers.load() != 0;
}

}  // namespace hearth
