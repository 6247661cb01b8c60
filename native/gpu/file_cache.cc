#include "gpu/file_cache.h"

#include <algorithm>

namespace hearth {

std::shared_ptr<OpenedFile> FileCache::find(const std::string& path, FileUse use) {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find_if(
      entries_, [&](const Entry& each) { return each.use == use && each.path == path; });
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->file;
}

Result<std::shared_ptr<OpenedFile>> FileCache::open(const std::string& path, FileUse use) {
  if (std::shared_ptr<OpenedFile> known = find(path, use); known && known->isCurrent()) {
    return known;
  }
  Result<std::shared_ptr<OpenedFile>> opened = OpenedFile::open(path, use);
  if (!opened.ok()) return opened;
  std::list<Entry> leaving;  // closed without the mutex
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->use == use && entry->path == path) leaving.splice(leaving.end(), entries_, entry);
    entry = next;
  }
  entries_.push_front({path, use, *opened});
  while (entries_.size() > capacity_) {
    leaving.splice(leaving.end(), entries_, std::prev(entries_.end()));
  }
  return opened;
}

std::size_t FileCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace hearth
