#include "cache/evictor.h"

#include <algorithm>
#include <cstdio>

#include "cache/cache_core.h"

namespace hearth {
namespace {

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
  // From here, so that questions of those before count, too.
  Inquiry inquiry{.askedBefore = directory.asked()};
  co_await directory.evictions().acquire(1);
  Status done = co_await makeRoom(directory, bytes, std::move(inquiry));
  directory.evictions().release(1);
  co_await back.reactor.enter();
  co_return done;
}

Task<Status> Evictor::makeRoom(CacheDirectory& directory, std::uint64_t bytes, Inquiry inquiry) {
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
      co_await core_.views.refresh(directory.home().reactor);
      refreshed = true;
      continue;
    }
    const std::uint64_t slack = std::min(budget.budgetBytes() / kSlackShare, kMaxSlack);
    const std::uint64_t needed = budget.deficit(bytes) + slack;
    Victims victims;
    if (copies() != nullptr) victims = co_await chooseCopies(directory, needed, inquiry);
    if (victims.empty()) victims = co_await chooseByUse(directory, needed, inquiry);
    if (victims.empty()) co_return outOfSpace(directory, bytes);
    Gone gone = [this](std::span<const Victim> those) { reportGone(those); };
    const Removal removal = co_await removeMarked(directory, std::move(victims), std::move(gone));
    reportKept(removal.stay);
    if (!removal.status.ok())
      co_return removal.status.error().within("making room in cache directory " + directory.path());
  }
}

bool Evictor::mayAsk(CacheDirectory& directory, const Inquiry& inquiry) {
  return directory.asked() - inquiry.askedBefore < kAskFor;
}

Task<Evictor::Victims> Evictor::chooseCopies(CacheDirectory& directory, std::uint64_t bytes,
                                             Inquiry& inquiry) {
  const auto asks = [&] { return inquiry.vain < kVainRequests && mayAsk(directory, inquiry); };
  if (!asks()) co_return Victims();
  EvictionCandidates& candidates = directory.candidates(EvictionCandidates::Order::kAsCopies);
  candidates.begin();
  Victims leaving;
  Victims stay;
  std::uint64_t expected = 0;
  bool looked = false;
  while (expected < bytes && asks()) {
    Victims batch = take(candidates, bytes - expected, kMaxAsked, &inquiry, looked);
    if (batch.empty()) break;
    batch = co_await judge(directory, std::move(batch), inquiry, true);
    const std::uint64_t before = expected;
    stay.clear();
    for (Victim& victim : batch) {
      const bool leaves =
          victim.verdict == CopyVerdict::kNone || victim.verdict == CopyVerdict::kRedundant;
      if (leaves) expected += victim.entry->charged;
      (leaves ? leaving : stay).push_back(std::move(victim));
    }
    reportKept(stay);
    if (expected == before) ++inquiry.vain;
    if (expected != before) looked = false;
  }
  Victims marked;
  stay.clear();
  for (Victim& victim : leaving)
    (begin(victim, false) ? marked : stay).push_back(std::move(victim));
  reportKept(stay);
  if (marked.empty()) candidates.lookLater();
  co_return marked;
}

Task<Evictor::Victims> Evictor::chooseByUse(CacheDirectory& directory, std::uint64_t bytes,
                                            Inquiry& inquiry) {
  EvictionCandidates& candidates = directory.candidates(EvictionCandidates::Order::kByUse);
  candidates.begin();
  Victims marked;
  std::uint64_t freed = 0;
  bool looked = false;
  while (freed < bytes) {
    Victims batch = take(candidates, bytes - freed, EvictionCandidates::kFound, nullptr, looked);
    if (batch.empty()) break;
    // Once, before the first of them is marked.
    const bool asks = !std::exchange(inquiry.lastAsked, true) && mayAsk(directory, inquiry);
    batch = co_await judge(directory, std::move(batch), inquiry, asks);
    Victims stay;
    for (Victim& victim : batch) {
      const bool goes = begin(victim, true);
      if (goes) {
        freed += victim.entry->charged;
        looked = false;
      }
      (goes ? marked : stay).push_back(std::move(victim));
    }
    reportKept(stay);
  }
  co_return marked;
}

bool Evictor::begin(const Victim& victim, bool lastResort) {
  if (core_.index.beginEviction(victim.entry) != EvictOutcome::kEvicted) return false;
  // Another agent may have got leave for the sake of this copy, and we have heard with that
  // question that it is wanted: who looks at the file from here on does not find it, and what was
  // said of it before is seen here.
  const bool unasked = victim.verdict == CopyVerdict::kNone;
  if (lastResort || !unasked || !isWanted(*victim.entry, wallClockMs())) return true;
  core_.index.abandonEviction(victim.entry);
  return false;
}

Evictor::Victims Evictor::take(EvictionCandidates& candidates, std::uint64_t bytes,
                               std::size_t limit, const Inquiry* known, bool& looked) {
  Victims taken;
  std::uint64_t expected = 0;
  while (expected < bytes && taken.size() < limit) {
    std::shared_ptr<CacheEntry> entry = candidates.next();
    if (entry == nullptr) {
      if (looked || !candidates.look()) break;
      looked = true;
      continue;
    }
    if (core_.views.publishes(entry->key)) continue;
    if (known != nullptr && known->verdicts.contains(entry)) continue;
    expected += entry->charged;
    taken.push_back({.entry = std::move(entry)});
  }
  return taken;
}

CopyVerdict Evictor::knownOf(const CacheEntry& entry, Clock::time_point now) {
  if (now < entry.lastCopyUntil.load()) return CopyVerdict::kLast;
  if (now < entry.unconfirmedUntil.load()) return CopyVerdict::kUnconfirmed;
  return CopyVerdict::kNone;
}

void Evictor::note(const Victim& victim) {
  if (victim.verdict == CopyVerdict::kUnconfirmed)
    victim.entry->unconfirmedUntil = Clock::now() + kUnconfirmedFor;
  if (victim.verdict != CopyVerdict::kLast) return;
  victim.entry->lastCopyUntil = Clock::now() + kLastCopyFor;
  ++core_.counters.lastCopiesKept;
}

Task<Evictor::Victims> Evictor::judge(CacheDirectory& directory, Victims victims, Inquiry& inquiry,
                                      bool asks) {
  ClusterCopies* const others = copies();
  if (others == nullptr) co_return victims;
  const std::int64_t nowMs = wallClockMs();
  const Clock::time_point now = Clock::now();
  std::vector<Victim*> asked;
  std::vector<ClusterCopies::Copy> requests;
  for (Victim& victim : victims) {
    CopyVerdict& known = inquiry.verdicts[victim.entry];
    if (!isWanted(*victim.entry, nowMs)) continue;
    if (known == CopyVerdict::kNone) known = knownOf(*victim.entry, now);
    victim.verdict = known;
    if (known != CopyVerdict::kNone) continue;
    victim.verdict = CopyVerdict::kUnasked;
    if (!asks || requests.size() == kMaxAsked) continue;
    asked.push_back(&victim);
    requests.push_back({.key = victim.entry->key,
                        .size = victim.entry->size,
                        .usedAtMs = victim.entry->lastUsedMs()});
  }
  if (requests.empty()) co_return victims;
  const std::vector<ClusterCopies::Answer> answers =
      co_await others->ask(std::move(requests), directory.home().reactor);
  directory.noteAsked(Clock::now() - now);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    asked[i]->verdict = answers[i].verdict;
    asked[i]->request = answers[i].request;
    inquiry.verdicts[asked[i]->entry] = answers[i].verdict;
    note(*asked[i]);
  }
  co_return victims;
}

Task<Evictor::Removal> Evictor::removeMarked(CacheDirectory& directory, Victims victims,
                                             Gone gone) {
  Removal removal;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < victims.size(); ++i) {
    const std::shared_ptr<CacheEntry> entry = victims[i].entry;
    Status unlinked;
    for (const Sha256Digest& view : core_.views.viewsOf(entry->key)) {
      unlinked = co_await core_.views.remove(view, directory.home().reactor);
      if (!unlinked.ok()) break;
    }
    if (unlinked.ok()) {
      removal.gone.push_back(victims[i]);
      bytes += entry->residentBytes();
    } else if (unlinked.code() == ErrorCode::kInUse) {
      removal.stay.push_back(victims[i]);
    } else {
      removal.status = unlinked.error();
      break;
    }
  }
  if (removal.status.ok()) {
    std::vector<std::shared_ptr<CacheEntry>> going;
    for (const Victim& victim : removal.gone) going.push_back(victim.entry);
    CacheDirectory::Gone unlinked =
        [&gone, left = std::span<const Victim>(removal.gone)](std::size_t count) mutable {
          gone(left.first(count));
          left = left.subspan(count);
        };
    removal.status = co_await directory.remove(std::move(going), std::move(unlinked));
  }
  if (!removal.status.ok()) {
    removal.gone.clear();
    removal.stay = std::move(victims);
  }
  for (const Victim& victim : removal.stay) core_.index.abandonEviction(victim.entry);
  core_.counters.evictedFiles += removal.gone.size();
  if (removal.status.ok()) core_.counters.evictedBytes += bytes;
  co_return removal;
}

ClusterCopies* Evictor::copies() const {
  ClusterCopies* const copies = core_.copies.load();
  return copies != nullptr && copies->others() ? copies : nullptr;
}

void Evictor::reportGone(std::span<const Victim> victims) {
  CacheCounters& counters = core_.counters;
  std::vector<ClusterCopies::Copy> gone;
  for (const auto& [entry, verdict, request] : victims) {
    switch (verdict) {
      case CopyVerdict::kNone:
        break;
      case CopyVerdict::kRedundant:
        ++counters.redundantCopies;
        break;
      case CopyVerdict::kLast:
        ++counters.lastCopies;
        break;
      case CopyVerdict::kUnconfirmed:
      case CopyVerdict::kUnanswered:
        ++counters.unansweredCopies;
        break;
      case CopyVerdict::kUnsupported:
      case CopyVerdict::kUnasked:
        ++counters.unaskedCopies;
        break;
    }
    // An asker must hear of the removal even when no other agent is left.
    if (request == 0 && copies() == nullptr) continue;
    gone.push_back(
        {.key = entry->key, .size = entry->size, .verdict = verdict, .request = request});
  }
  ClusterCopies* const copies = core_.copies.load();
  if (copies != nullptr && !gone.empty()) copies->evicted(std::move(gone));
}

void Evictor::reportKept(std::span<const Victim> victims) {
  std::vector<ClusterCopies::Copy> kept;
  for (const auto& [entry, verdict, request] : victims) {
    if (request == 0) continue;
    kept.push_back(
        {.key = entry->key, .size = entry->size, .verdict = verdict, .request = request});
  }
  ClusterCopies* const copies = core_.copies.load();
  if (copies != nullptr && !kept.empty()) copies->kept(std::move(kept));
}

Task<Result<EvictOutcome>> Evictor::evict(ContentKey key, Reactor& back) {
  const std::shared_ptr<CacheEntry> entry = core_.index.find(key);
  if (!entry || entry->charged == 0) co_return EvictOutcome::kAbsent;
  CacheDirectory& directory = entry->directory;
  co_await directory.home().reactor.enter();
  co_await directory.evictions().acquire(1);
  Result<EvictOutcome> outcome = EvictOutcome::kEvicted;
  co_await core_.views.refresh(directory.home().reactor);
  if (core_.views.publishes(key)) {
    outcome = EvictOutcome::kPublished;
  } else {
    outcome = core_.index.beginEviction(entry);
  }
  if (outcome.ok() && *outcome == EvictOutcome::kEvicted) {
    Victims one{{.entry = entry}};
    // The asker reports the removal.
    Gone unreported = [](std::span<const Victim>) {};
    const Removal removal = co_await removeMarked(directory, std::move(one), std::move(unreported));
    if (!removal.status.ok()) {
      outcome = removal.status.error();
    } else if (removal.gone.empty()) {
      outcome = EvictOutcome::kPublished;
    }
  }
  directory.evictions().release(1);
  co_await back.enter();
  co_return outcome;
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
