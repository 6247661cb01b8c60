#include "cache/claim_queue.h"

#include <iterator>
#include <unordered_set>
#include <utility>

namespace hearth {

ClaimQueue::Backlog ClaimQueue::add(PendingClaim claim) {
  const std::lock_guard guard(mutex_);
  bytes_ += claim.entry->chunkBytes(claim.chunk);
  claims_.push_back(std::move(claim));
  return {bytes_, claims_.size()};
}

std::size_t ClaimQueue::addDeferred(std::vector<PendingClaim> claims, std::size_t folder) {
  const std::lock_guard guard(mutex_);
  deferred_.insert(deferred_.end(), std::make_move_iterator(claims.begin()),
                   std::make_move_iterator(claims.end()));
  deferredFolders_.set(folder);
  return ++deferredFiles_;
}

void ClaimQueue::release() {
  const std::lock_guard guard(mutex_);
  for (PendingClaim& claim : deferred_) {
    bytes_ += claim.entry->chunkBytes(claim.chunk);
    claims_.push_back(std::move(claim));
  }
  deferred_.clear();
  deferredFiles_ = 0;
  folders_ |= std::exchange(deferredFolders_, {});
}

void ClaimQueue::restore(std::vector<PendingClaim> claims, const FolderSet& folders) {
  const std::lock_guard guard(mutex_);
  for (PendingClaim& claim : claims) {
    bytes_ += claim.entry->chunkBytes(claim.chunk);
    claims_.push_back(std::move(claim));
  }
  folders_ |= folders;
}

void ClaimQueue::forget(std::span<const std::shared_ptr<CacheEntry>> entries) {
  std::unordered_set<const CacheEntry*> gone;
  for (const auto& entry : entries) gone.insert(entry.get());
  const std::lock_guard guard(mutex_);
  std::erase_if(deferred_,
                [&](const PendingClaim& claim) { return gone.contains(claim.entry.get()); });
  std::erase_if(claims_, [&](const PendingClaim& claim) {
    if (!gone.contains(claim.entry.get())) return false;
    bytes_ -= claim.entry->chunkBytes(claim.chunk);
    return true;
  });
}

void ClaimQueue::noteFolder(std::size_t folder) {
  const std::lock_guard guard(mutex_);
  folders_.set(folder);
}

ClaimQueue::Batch ClaimQueue::take() {
  const std::lock_guard guard(mutex_);
  bytes_ = 0;
  return {std::exchange(claims_, {}), std::exchange(folders_, {})};
}

ClaimQueue::Backlog ClaimQueue::backlog() const {
  const std::lock_guard guard(mutex_);
  return {bytes_, claims_.size()};
}

}  // namespace hearth
