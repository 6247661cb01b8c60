#include "volume_mount/change_journal.h"

#include <atomic>

namespace hearth {
namespace {

void setUnique(JournalEntry& entry, std::uint64_t unique) {
  std::atomic_ref(entry.unique).store(unique, std::memory_order_release);
}

}  // namespace

ChangeJournal::ChangeJournal(std::span<JournalEntry> entries) {
  for (JournalEntry& entry : entries) {
    if (entry.unique == 0) {
      free_.push_back(&entry);
    } else {
      inherited_[entry.unique] = &entry;
    }
  }
}

std::optional<AskedChange> ChangeJournal::find(std::uint64_t unique) const {
  const auto found = inherited_.find(unique);
  return found == inherited_.end() ? std::nullopt : std::optional(found->second->asked);
}

JournalEntry* ChangeJournal::take(std::uint64_t unique) {
  if (const auto own = own_.find(unique); own != own_.end()) return own->second;
  JournalEntry* taken = nullptr;
  if (const auto known = inherited_.find(unique); known != inherited_.end()) {
    taken = known->second;
    inherited_.erase(known);
  } else if (!free_.empty()) {
    taken = free_.back();
    free_.pop_back();
  } else if (!inherited_.empty()) {
    // The kernel sends requests again at once, so the oldest was answered.
    taken = inherited_.begin()->second;
    inherited_.erase(inherited_.begin());
  }
  if (taken != nullptr) own_[unique] = taken;
  return taken;
}

bool ChangeJournal::keep(std::uint64_t unique, const AskedChange& asked) {
  JournalEntry* const entry = take(unique);
  if (entry == nullptr) return false;
  // An agent that is killed leaves no entry half filled.
  setUnique(*entry, 0);
  entry->asked = asked;
  setUnique(*entry, unique);
  return true;
}

void ChangeJournal::drop(std::uint64_t unique) {
  JournalEntry* entry = nullptr;
  if (const auto own = own_.extract(unique); !own.empty()) entry = own.mapped();
  if (const auto old = inherited_.extract(unique); !old.empty()) entry = old.mapped();
  if (entry == nullptr) return;
  setUnique(*entry, 0);
  free_.push_back(entry);
}

}  // namespace hearth
