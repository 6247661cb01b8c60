#include "cache/evictor.h"

#include <algorithm>
#include <cstdio>

#include "cache/cache_core.h"

namespace hearth {
namespace {

// A look through all entries gives this many candidates, oldest first; the next look is taken when
// they are used up.
constexpr std::size_t kCandidates = 1024;
// More is freed than is asked for, up to this share of the budget and this many bytes: a full cache
// then syncs one drop record for many files.
constexpr std::uint64_t kSlackShare = 64;
constexpr std::uint64_t kMaxSlack = std::uint64_t{64} << 20;

std::string inMiB(std::uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Task<Status> Evictor::measure(CacheDirectory& directory, FileSystem& files) {
  const std::uint64_t token = directory.budget().measuring();
  const Result<SpaceInfo> space = co_await files.space(directory.path());
  if (!space.ok()) co_return space.error();
  directory.budget().measured(token, space->freeBytes);
  co_return Status();
}

Task<Status> Evictor::reserve(CacheDirectory& directory, std::uint64_t bytes,
                              const ShardContext& back) {
  SpaceBudget::Answer answer = directory.budget().reserve(bytes);
  if (answer == SpaceBudget::Answer::kMeasureFirst) {
    const Status measured = co_await measure(directory, back.files);
    if (!measured.ok()) co_return measured;
    answer = directory.budget().reserve(bytes);
  }
  if (answer == SpaceBudget::Answer::kReserved) co_return Status();
  co_await directory.home().reactor.enter();
  co_await directory.evictions().acquire(1);
  Status done = co_await makeRoom(directory, bytes);
  directory.evictions().release(1);
  co_await back.reactor.enter();
  co_return done;
}

Task<Status> Evictor::makeRoom(CacheDirectory& directory, std::uint64_t bytes) {
  SpaceBudget& budget = directory.budget();
  if (bytes > budget.budgetBytes()) co_return outOfSpace(directory, bytes);
  bool refreshed = false;
  for (;;) {
    const SpaceBudget::Answer answer = budget.reserve(bytes);
    if (answer == SpaceBudget::Answer::kReserved) co_return Status();
    if (answer == SpaceBudget::Answer::kMeasureFirst) {
      const Status measured = co_await measure(directory, directory.home().files);
      if (!measured.ok()) co_return measured;
      continue;
    }
    if (!refreshed) {
      const Status known = co_await core_.views.refresh(directory.home().reactor);
      if (!known.ok()) co_return known;
      refreshed = true;
      continue;
    }
    const std::uint64_t slack = std::min(budget.budgetBytes() / kSlackShare, kMaxSlack);
    Entries victims = choose(directory, budget.deficit(bytes) + slack);
    if (victims.empty()) co_return outOfSpace(directory, bytes);
    const Result<std::size_t> removed = co_await removeMarked(directory, std::move(victims));
    if (!removed.ok())
      co_return removed.error().within("making room in cache directory " + directory.path());
  }
}

Evictor::Entries Evictor::choose(CacheDirectory& directory, std::uint64_t bytes) {
  std::vector<EvictionCandidate>& candidates = directory.candidates();
  Entries chosen;
  std::uint64_t freed = 0;
  bool looked = false;
  while (freed < bytes) {
    if (candidates.empty()) {
      if (looked) break;
      findCandidates(directory, candidates);
      looked = true;
      if (candidates.empty()) break;
    }
    const EvictionCandidate candidate = std::move(candidates.back());
    candidates.pop_back();
    // One that was used since stands elsewhere in the order: the next look finds it.
    if (candidate.entry->lastUsedMs() != candidate.lastUsedMs) continue;
    if (core_.views.publishes(candidate.entry->key)) continue;
    if (core_.index.beginEviction(candidate.entry) != EvictOutcome::kEvicted) continue;
    freed += candidate.entry->charged;
    chosen.push_back(candidate.entry);
    looked = false;
  }
  return chosen;
}

void Evictor::findCandidates(CacheDirectory& directory,
                             std::vector<EvictionCandidate>& candidates) const {
  for (KeyIndex::Usage& usage : core_.index.usages()) {
    if (&usage.entry->directory != &directory || usage.inUse || usage.pinned ||
        usage.entry->charged == 0)
      continue;
    candidates.push_back({usage.entry->lastUsedMs(), std::move(usage.entry)});
  }
  const auto oldestFirst = [](const EvictionCandidate& a, const EvictionCandidate& b) {
    return a.lastUsedMs < b.lastUsedMs;
  };
  std::sort(candidates.begin(), candidates.end(), oldestFirst);
  if (candidates.size() > kCandidates) candidates.resize(kCandidates);
  std::reverse(candidates.begin(), candidates.end());
}

Task<Result<std::size_t>> Evictor::removeMarked(CacheDirectory& directory, Entries entries) {
  Entries going;
  std::uint64_t bytes = 0;
  for (const auto& entry : entries) {
    Status unlinked;
    for (const Sha256Digest& view : core_.views.viewsOf(entry->key)) {
      unlinked = co_await core_.views.remove(view, directory.home().reactor);
      if (!unlinked.ok()) break;
    }
    if (unlinked.ok()) {
      going.push_back(entry);
      bytes += entry->residentBytes();
    } else if (unlinked.code() == ErrorCode::kInUse) {
      core_.index.abandonEviction(entry);
    } else {
      for (const auto& marked : entries) core_.index.abandonEviction(marked);
      co_return unlinked.error();
    }
  }
  const std::size_t count = going.size();
  const Status removed = co_await directory.remove(going);
  if (!removed.ok()) {
    for (const auto& entry : going) core_.index.abandonEviction(entry);
    co_return removed.error();
  }
  core_.counters.evictedFiles += count;
  core_.counters.evictedBytes += bytes;
  co_return count;
}

Task<Result<EvictOutcome>> Evictor::evict(ContentKey key, Reactor& back) {
  const std::shared_ptr<CacheEntry> entry = core_.index.find(key);
  if (!entry || entry->charged == 0) co_return EvictOutcome::kAbsent;
  CacheDirectory& directory = entry->directory;
  co_await directory.home().reactor.enter();
  co_await directory.evictions().acquire(1);
  Result<EvictOutcome> outcome = EvictOutcome::kEvicted;
  const Status known = co_await core_.views.refresh(directory.home().reactor);
  if (!known.ok()) {
    outcome = known.error();
  } else if (core_.views.publishes(key)) {
    outcome = EvictOutcome::kPublished;
  } else {
    outcome = core_.index.beginEviction(entry);
  }
  if (outcome.ok() && *outcome == EvictOutcome::kEvicted) {
    Entries one{entry};
    const Result<std::size_t> removed = co_await removeMarked(directory, std::move(one));
    if (!removed.ok()) {
      outcome = removed.error();
    } else if (*removed == 0) {
      outcome = EvictOutcome::kPublished;
    }
  }
  directory.evictions().release(1);
  co_await back.enter();
  co_return outcome;
}

Task<void> Evictor::settle(CacheDirectory& directory, Reactor& back) {
  co_await directory.home().reactor.enter();
  co_await directory.evictions().acquire(1);
  directory.evictions().release(1);
  co_await back.enter();
}

Error Evictor::outOfSpace(CacheDirectory& directory, std::uint64_t bytes) const {
  std::uint64_t pinned = 0;
  std::uint64_t inUse = 0;
  std::uint64_t published = 0;
  for (const KeyIndex::Usage& usage : core_.index.usages()) {
    if (&usage.entry->directory != &directory) continue;
    if (usage.pinned) {
      pinned += usage.entry->charged;
    } else if (core_.views.publishes(usage.entry->key)) {
      published += usage.entry->charged;
    } else if (usage.inUse) {
      inUse += usage.entry->charged;
    }
  }
  SpaceBudget& budget = directory.budget();
  return {ErrorCode::kOutOfSpace,
          "cache directory " + directory.path() + " has no room for " + inMiB(bytes) + ": " +
              inMiB(budget.usedBytes()) + " of its budget of " + inMiB(budget.budgetBytes()) +
              " are used (" + inMiB(pinned) + " pinned, " + inMiB(published) + " published, " +
              inMiB(inUse) + " in use), and its file system has " + inMiB(budget.freeBytes()) +
              " free where " + inMiB(budget.freeFloorBytes()) +
              " must stay free; raise the budget, unpin or unmount datasets, or free space on the "
              "disk"};
}

}  // namespace hearth
