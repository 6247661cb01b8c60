#include "memory_files/memory_room.h"

#include <algorithm>

namespace hearth {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::uint64_t wholePages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

std::vector<const MemoryRoom::Files::value_type*> MemoryRoom::inOrder() const {
  std::vector<const Files::value_type*> ordered;
  for (const Files::value_type& each : files_) {
    if (each.second.whole) ordered.push_back(&each);
  }
  std::ranges::sort(ordered, [](const auto* a, const auto* b) {
    if (a->second.rank != b->second.rank) return a->second.rank < b->second.rank;
    return a->second.used < b->second.used;
  });
  return ordered;
}

MemoryRoom::Answer MemoryRoom::claim(const Claim& claim, const Keys& staying) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t bytes = wholePages(claim.bytes);
  if (const auto known = files_.find(claim.key); known != files_.end()) {
    known->second.rank = std::max(known->second.rank, claim.rank);
    return {true, {}};
  }
  if (bytes <= budget_ - std::min(budget_, used_)) {
    files_[claim.key] = {bytes, 0, claim.rank, false, Clock::now()};
    used_ += bytes;
    return {true, {}};
  }
  Answer answer;
  std::uint64_t free = budget_ - std::min(budget_, used_);
  for (const Files::value_type* const each : inOrder()) {
    const File& file = each->second;
    const bool goes =
        file.rank < claim.rank || (file.rank == claim.rank && file.used < claim.since);
    if (!goes || staying.contains(each->first)) continue;
    answer.victims.push_back(each->first);
    free += file.bytes;
    if (free >= bytes) return answer;
  }
  return {};
}

bool MemoryRoom::filled(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(key);
  if (known == files_.end()) return false;
  known->second.whole = true;
  known->second.used = Clock::now();
  return true;
}

void MemoryRoom::release(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(key);
  if (known == files_.end()) return;
  used_ -= known->second.bytes;
  files_.erase(known);
}

void MemoryRoom::adopt(const ContentKey& key, std::uint64_t bytes, std::uint64_t hugeBytes,
                       MemoryRank rank) {
  const std::lock_guard lock(mutex_);
  const File file{wholePages(bytes), std::min(hugeBytes, wholePages(bytes)), rank, true,
                  Clock::now()};
  if (files_.emplace(key, file).second) used_ += file.bytes;
}

MemoryRank MemoryRoom::raise(const ContentKey& key, MemoryRank rank) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(key);
  if (known == files_.end()) return rank;
  return known->second.rank = std::max(known->second.rank, rank);
}

bool MemoryRoom::has(const ContentKey& key) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(key);
}

void MemoryRoom::noteUse(const ContentKey& key, Clock::time_point at) {
  const std::lock_guard lock(mutex_);
  if (const auto known = files_.find(key); known != files_.end())
    known->second.used = std::max(known->second.used, at);
}

std::uint64_t MemoryRoom::noteHuge(const ContentKey& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto known = files_.find(key);
  if (known == files_.end()) return 0;
  File& file = known->second;
  return file.hugeBytes = std::min(file.bytes, file.hugeBytes + bytes);
}

MemoryRoom::Use MemoryRoom::use() const {
  const std::lock_guard lock(mutex_);
  Use use{budget_, used_, 0, 0};
  for (const auto& [key, file] : files_) {
    use.hugeBytes += file.hugeBytes;
    use.files += file.whole ? 1 : 0;
  }
  return use;
}

std::vector<ContentKey> MemoryRoom::excess() const {
  const std::lock_guard lock(mutex_);
  std::vector<ContentKey> keys;
  std::uint64_t left = used_;
  for (const Files::value_type* const each : inOrder()) {
    if (left <= budget_) break;
    keys.push_back(each->first);
    left -= each->second.bytes;
  }
  return keys;
}

}  // namespace hearth
