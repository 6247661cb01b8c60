#include "cache/key_index.h"

#include <algorithm>

namespace hearth {
namespace {

template <class Entries>
bool contains(const Entries& entries, const std::shared_ptr<CacheEntry>& entry) {
  const auto found = entries.find(entry->key);
  return found != entries.end() && found->second == entry;
}

}  // namespace

std::shared_ptr<CacheEntry> KeyIndex::find(const ContentKey& key) const {
  const Part& part = partOf(key);
  const std::lock_guard guard(part.mutex);
  const auto found = part.entries.find(key);
  return found == part.entries.end() ? nullptr : found->second;
}

bool KeyIndex::insert(std::shared_ptr<CacheEntry> entry) {
  Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  return part.entries.emplace(entry->key, entry).second;
}

std::shared_ptr<OpenCacheFile> KeyIndex::attach(
    const std::shared_ptr<CacheEntry>& entry,
    const std::function<std::shared_ptr<OpenCacheFile>()>& make) {
  Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  if (entry->evicting || !contains(part.entries, entry)) return nullptr;
  std::shared_ptr<OpenCacheFile> file = entry->open.lock();
  if (!file) {
    file = make();
    entry->open = file;
  }
  return file;
}

void KeyIndex::detach(const std::shared_ptr<CacheEntry>& entry) {
  Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  // It may have been opened again since.
  if (!entry->open.expired() || entry->evicting || entry->charged.load() != 0) return;
  if (contains(part.entries, entry)) part.entries.erase(entry->key);
}

bool KeyIndex::abandon(const std::shared_ptr<CacheEntry>& entry) {
  Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  if (entry->evicting || !entry->open.expired() || !contains(part.entries, entry)) return false;
  part.entries.erase(entry->key);
  return true;
}

EvictOutcome KeyIndex::beginEviction(const std::shared_ptr<CacheEntry>& entry) {
  Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  if (entry->evicting || !contains(part.entries, entry)) return EvictOutcome::kAbsent;
  if (part.pins.contains(entry->key)) return EvictOutcome::kPinned;
  if (!entry->open.expired()) return EvictOutcome::kInUse;
  entry->evicting = true;
  return EvictOutcome::kEvicted;
}

void KeyIndex::abandonEviction(const std::shared_ptr<CacheEntry>& entry) {
  Part& part = partOf(entry->key);
  std::vector<Settled*> waiters;
  {
    const std::lock_guard guard(part.mutex);
    entry->evicting = false;
    waiters = takeWaiters(part, *entry);
  }
  resume(std::move(waiters));
}

void KeyIndex::erase(const std::shared_ptr<CacheEntry>& entry) {
  Part& part = partOf(entry->key);
  std::vector<Settled*> waiters;
  {
    const std::lock_guard guard(part.mutex);
    if (contains(part.entries, entry)) part.entries.erase(entry->key);
    waiters = takeWaiters(part, *entry);
  }
  resume(std::move(waiters));
}

KeyIndex::Settled KeyIndex::settled(std::shared_ptr<CacheEntry> entry, Reactor& here) {
  return {*this, std::move(entry), here};
}

bool KeyIndex::Settled::await_suspend(std::coroutine_handle<> handle) {
  Part& part = index_.partOf(entry_->key);
  const std::lock_guard guard(part.mutex);
  if (!entry_->evicting || !contains(part.entries, entry_)) return false;
  awaiter_ = handle;
  part.settling.push_back(this);
  return true;
}

std::vector<KeyIndex::Settled*> KeyIndex::takeWaiters(Part& part, const CacheEntry& entry) {
  const auto others =
      std::partition(part.settling.begin(), part.settling.end(),
                     [&entry](const Settled* waiter) { return waiter->entry_.get() != &entry; });
  std::vector<Settled*> taken(others, part.settling.end());
  part.settling.erase(others, part.settling.end());
  return taken;
}

void KeyIndex::resume(std::vector<Settled*> waiters) {
  for (Settled* const waiter : waiters) waiter->here_.post(*waiter);
}

void KeyIndex::pin(const ContentKey& key, const std::string& owner) {
  Part& part = partOf(key);
  const std::lock_guard guard(part.mutex);
  part.pins[key].insert(owner);
}

void KeyIndex::unpin(const ContentKey& key, const std::string& owner) {
  Part& part = partOf(key);
  const std::lock_guard guard(part.mutex);
  const auto found = part.pins.find(key);
  if (found == part.pins.end()) return;
  found->second.erase(owner);
  if (found->second.empty()) part.pins.erase(found);
}

bool KeyIndex::pinned(const ContentKey& key) const {
  const Part& part = partOf(key);
  const std::lock_guard guard(part.mutex);
  return part.pins.contains(key);
}

std::optional<KeyIndex::Usage> KeyIndex::usage(const std::shared_ptr<CacheEntry>& entry) const {
  const Part& part = partOf(entry->key);
  const std::lock_guard guard(part.mutex);
  if (entry->evicting || !contains(part.entries, entry)) return std::nullopt;
  return Usage{entry, !entry->open.expired(), part.pins.contains(entry->key)};
}

std::vector<KeyIndex::Usage> KeyIndex::usages() const {
  std::vector<Usage> all;
  for (const Part& part : parts_) {
    const std::lock_guard guard(part.mutex);
    all.reserve(all.size() + part.entries.size());
    for (const auto& [key, entry] : part.entries) {
      if (entry->evicting) continue;
      all.push_back({entry, !entry->open.expired(), part.pins.contains(key)});
    }
  }
  return all;
}

std::vector<std::shared_ptr<CacheEntry>> KeyIndex::entries() const {
  std::vector<std::shared_ptr<CacheEntry>> all;
  for (const Part& part : parts_) {
    const std::lock_guard guard(part.mutex);
    for (const auto& [key, entry] : part.entries) all.push_back(entry);
  }
  return all;
}

}  // namespace hearth
