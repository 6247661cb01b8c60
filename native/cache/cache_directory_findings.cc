// CacheDirectory: what was found out about the bytes of a file, as it goes into the log.
#include <algorithm>

#include "cache/cache_directory.h"
#include "cache/entry_records.h"

namespace hearth {

void CacheDirectory::queueRetraction(std::shared_ptr<CacheEntry> entry, std::uint32_t chunk) {
  retractions_.add({std::move(entry), chunk});
  home().reactor.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->background_.closed()) self->background_.spawn(retractInBackground(*self));
  });
}

Task<void> CacheDirectory::retractInBackground(CacheDirectory& directory) {
  co_await directory.commits_.acquire(1);
  const Status done = co_await directory.retractLocked();
  directory.commits_.release(1);
  if (done.ok() || directory.background_.closed()) co_return;
  // The log cannot be written now. In this process the chunk stays spoiled.
  directory.retractTimer_.start(Clock::now() + directory.tuning_.commitDelay, [&directory] {
    directory.background_.spawn(retractInBackground(directory));
  });
}

Task<Status> CacheDirectory::settleRetractions(Reactor& back) {
  return withLog(retractLocked(), back);
}

Task<Status> CacheDirectory::retract(std::shared_ptr<CacheEntry> entry, std::uint32_t chunk,
                                     Reactor& back) {
  retractions_.add({std::move(entry), chunk});
  co_return co_await settleRetractions(back);
}

Task<Status> CacheDirectory::retractLocked() {
  const std::vector<PendingRetraction> batch = retractions_.take();
  std::vector<std::byte> records;
  std::uint64_t dead = 0;
  for (const auto& [entry, chunk] : batch) {
    // Not what was written again since: whoever did had it retracted before. Nor what was evicted:
    // another entry may have its key.
    if (entry->resident(chunk) || index_.find(entry->key) != entry) continue;
    appendRecord(records, {.type = RecordType::kRetract, .key = entry->key, .chunk = chunk});
    dead += claimBytes(*entry, chunk);
  }
  if (records.empty()) co_return Status();
  const Status appended = co_await log_->append(records);
  if (!appended.ok()) {
    retractions_.restore(batch);
    co_return appended;
  }
  liveLogBytes_ -= std::min(liveLogBytes_, dead);
  co_return Status();
}

Task<Status> CacheDirectory::recordVerified(std::shared_ptr<CacheEntry> entry, Sha256Digest digest,
                                            std::uint64_t generation, Reactor& back) {
  co_return co_await withLog(recordVerifiedLocked(*entry, digest, generation), back);
}

Task<Status> CacheDirectory::recordVerifiedLocked(CacheEntry& entry, Sha256Digest digest,
                                                  std::uint64_t generation) {
  const Status committed = co_await commitLocked(nullptr);
  if (!committed.ok()) co_return committed;
  if (entry.generation() != generation) {
    co_return Error{ErrorCode::kConflict, "a chunk of " + entry.key.hex() +
                                              " was found bad meanwhile; verify the file again"};
  }
  if (!entry.fullyClaimed()) {
    co_return Error{ErrorCode::kNotFound, entry.key.hex() + " is not complete on this agent"};
  }
  // An empty file has no claim that this could follow, and is right as it is.
  if (entry.size == 0) {
    entry.markVerified(digest, generation);
    co_return Status();
  }
  std::vector<std::byte> record;
  appendRecord(record, verificationOf(entry, digest));
  const Status appended = co_await log_->append(record);
  if (!appended.ok()) co_return appended;
  if (!entry.verified()) liveLogBytes_ += record.size();
  // A chunk that was spoiled meanwhile shows in the generation, and its retraction follows in the
  // log.
  entry.markVerified(digest, generation);
  co_return Status();
}

}  // namespace hearth
