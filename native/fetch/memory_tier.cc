#include "fetch/memory_tier.h"

#include <algorithm>

namespace hearth {
namespace {

// Longer than a reader at the speed of fetching needs for all of the memory; short enough that
// nobody notices how long a stopped reader delays other fetches.
constexpr auto kReaderTimeout = std::chrono::milliseconds(200);
constexpr auto kTick = std::chrono::milliseconds(100);
// A file goes for another shard's sake only if it lay unused for longer than the asker's by this
// much: memory that moved to and fro for less would be emptied for nothing.
constexpr auto kClaimMargin = std::chrono::seconds(1);

}  // namespace

MemoryTier::MemoryTier(Reactor& reactor, SlotStock& stock)
    : stock_(stock), policy_(stock.size() * kChunkBytes), timer_(reactor) {
  stock_.setReclaim([this] { return makeRoom(); });
  stock_.setReclaimIdle([this] { return dropUnawaited(false); });
}

MemoryTier::~MemoryTier() {
  stock_.setReclaim([] { return false; });
  stock_.setReclaimIdle([] { return false; });
  clear();
}

MemoryTier::File* MemoryTier::find(const ContentKey& key) {
  for (Files* const files : {&whole_, &passing_}) {
    if (const auto known = files->find(key); known != files->end()) return &known->second;
  }
  return nullptr;
}

bool MemoryTier::passes(std::uint64_t fileBytes) const {
  return (fileBytes + kChunkBytes - 1) / kChunkBytes > stock_.reach() / 2;
}

std::shared_ptr<LoadedChunks> MemoryTier::open(const ContentKey& key) {
  File* const known = find(key);
  if (known == nullptr) return std::make_shared<LoadedChunks>();
  policy_.hit(key);
  known->used = Clock::now();
  return known->chunks;
}

std::shared_ptr<LoadedChunk> MemoryTier::find(const ContentKey& key, std::uint32_t chunk) {
  File* const known = find(key);
  if (known == nullptr) return nullptr;
  if (chunk == 0) policy_.hit(key);
  known->used = Clock::now();
  return known->chunks->find(chunk);
}

void MemoryTier::keep(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
                      std::shared_ptr<LoadedChunk> loaded) {
  const bool passing = passes(fetch->size);
  File& file = (passing ? passing_ : whole_)[fetch->key];
  file.fetch = fetch;
  file.chunks = fetch->memory;
  insert(file, fetch->key, passing, chunk, std::move(loaded));
}

void MemoryTier::settle(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
                        const std::shared_ptr<LoadedChunk>& loaded) {
  if (fetch->loaded.find(chunk) == loaded) {
    keep(fetch, chunk, loaded);
  } else {  // all of the file was found to be wrong, or the chunk has landed once more
    noteLent(loaded);
  }
}

void MemoryTier::adopt(const ContentKey& key, std::uint64_t size,
                       const std::shared_ptr<KeyFetch>& wanted, std::uint32_t chunk,
                       std::shared_ptr<LoadedChunk> loaded) {
  if (wanted != nullptr && wanted->loaded.find(chunk) != nullptr) return;  // it has come in again
  const bool passing = passes(size);
  File& file = (passing ? passing_ : whole_)[key];
  if (wanted != nullptr) {
    file.fetch = wanted;
    file.chunks = wanted->memory;
  }
  if (file.chunks == nullptr) file.chunks = std::make_shared<LoadedChunks>();
  insert(file, key, passing, chunk, std::move(loaded));
}

void MemoryTier::insert(File& file, const ContentKey& key, bool passing, std::uint32_t chunk,
                        std::shared_ptr<LoadedChunk> loaded) {
  removeTrace(file, chunk);
  const std::uint64_t bytes = loaded->bytes.size();
  file.kept.push_back({chunk, loaded, bytes, Clock::now()});
  file.places[chunk] = std::prev(file.kept.end());
  chunks_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  file.used = Clock::now();
  policy_.setCapacity(stock_.size() * kChunkBytes);
  if (!passing) policy_.insert(key, file.kept.size() * kChunkBytes);
  loaded->buffer.leavePool();
  const std::shared_ptr<LoadedChunks> chunks = file.chunks;
  chunks->put(chunk, std::move(loaded));
  // Waiters may get the slot once nobody needs the chunk here, but not before the caller lets go of
  // it.
  ticking_ = true;
  timer_.start(Clock::now(), [this] { tick(); });
}

// Removes what is left of a former copy of the chunk, so that it is not counted twice.
void MemoryTier::removeTrace(File& file, std::uint32_t chunk) {
  const auto former = file.places.find(chunk);
  if (former == file.places.end()) return;
  chunks_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(former->second->bytes, std::memory_order_relaxed);
  if (lent(former->second->loaded)) lent_.push_back(former->second->loaded);
  file.kept.erase(former->second);
  file.places.erase(former);
}

std::uint64_t MemoryTier::forget(const ContentKey& key) {
  const std::uint64_t before = bytes();
  for (Files* const files : {&whole_, &passing_}) {
    if (const auto known = files->find(key); known != files->end()) dropAll(*files, known);
  }
  return before - bytes();
}

std::uint64_t MemoryTier::forgetIdle(const ContentKey& key) {
  const File* const known = find(key);
  return known == nullptr || inUse(*known) ? 0 : forget(key);
}

void MemoryTier::clear() {
  for (Files* const files : {&whole_, &passing_}) {
    while (!files->empty()) dropAll(*files, files->begin());
  }
  timer_.cancel();
  ticking_ = false;
}

bool MemoryTier::inUse(const File& file) {
  const std::shared_ptr<KeyFetch> fetch = file.fetch.lock();
  return fetch != nullptr && (fetch->awaited() || fetch->coming());
}

bool MemoryTier::idle(const KeyFetch* fetch, const Kept& kept) {
  const std::shared_ptr<LoadedChunk> loaded = kept.loaded.lock();
  if (loaded == nullptr || loaded->taken.load(std::memory_order_relaxed) >= loaded->bytes.size())
    return true;
  return fetch == nullptr || !fetch->awaited();
}

bool MemoryTier::nowhereElse(const KeyFetch* fetch, const Kept& kept) {
  return fetch != nullptr && fetch->cache != nullptr && !fetch->cache->resident(kept.chunk);
}

Clock::time_point MemoryTier::lastUse(const KeyFetch* fetch, const Kept& kept) {
  const std::shared_ptr<LoadedChunk> loaded = kept.loaded.lock();
  const Clock::time_point taken =
      loaded == nullptr ? kept.since : loaded->takenAt.load(std::memory_order_relaxed);
  return nowhereElse(fetch, kept) ? std::max(kept.since, taken) : kept.since;
}

bool MemoryTier::lent(const std::weak_ptr<LoadedChunk>& loaded) {
  const std::shared_ptr<LoadedChunk> chunk = loaded.lock();
  return chunk != nullptr && chunk->lentSince();
}

bool MemoryTier::evictable(const std::weak_ptr<LoadedChunk>& loaded, bool impatient) {
  const std::shared_ptr<LoadedChunk> chunk = loaded.lock();
  if (chunk == nullptr) return true;
  // The file's LoadedChunks and this call. Any other owner gives the chunk back soon, or waits for
  // the disk; dropping the chunk here would free no slot.
  constexpr long kIdleOwners = 2;
  if (chunk->isBeingSent()) return false;
  const auto since = chunk->lentSince();
  if (!since) return impatient || chunk.use_count() <= kIdleOwners;
  return impatient && Clock::now() - *since >= kReaderTimeout;
}

bool MemoryTier::makeRoom() {
  for (const bool impatient : {false, true}) {
    if (impatient && takeBackOne()) return true;
    if (dropUnawaited(impatient)) return true;
  }
  if (dropNewest() || dropAwaited()) return true;
  if (!std::exchange(ticking_, true)) timer_.start(Clock::now() + kTick, [this] { tick(); });
  return false;
}

bool MemoryTier::dropUnawaited(bool impatient) {
  return dropIdle(passing_, impatient) || dropFile(impatient) || dropIdle(whole_, impatient);
}

bool MemoryTier::takeBackOne() {
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  const auto place = std::find_if(lent_.begin(), lent_.end(),
                                  [](const auto& each) { return evictable(each, true); });
  if (place == lent_.end()) return false;
  const std::shared_ptr<LoadedChunk> chunk = place->lock();
  lent_.erase(place);
  chunk->takeBack();
  return true;
}

// The oldest chunk that no reader will come to.
MemoryTier::Candidate MemoryTier::oldestIdle(Files& files, bool impatient) {
  Candidate oldest;
  for (auto file = files.begin(); file != files.end(); ++file) {
    const std::shared_ptr<KeyFetch> fetch = file->second.fetch.lock();
    std::list<Kept>& kept = file->second.kept;
    const auto first = std::find_if(kept.begin(), kept.end(), [&](const Kept& each) {
      return idle(fetch.get(), each) && evictable(each.loaded, impatient);
    });
    if (first == kept.end()) continue;
    if (oldest.files != nullptr && first->since >= oldest.place->since) continue;
    oldest = {&files, file, first};
  }
  return oldest;
}

bool MemoryTier::dropIdle(Files& files, bool impatient) {
  const Candidate oldest = oldestIdle(files, impatient);
  if (oldest.files == nullptr) return false;
  drop(files, oldest.file, oldest.place);
  if (impatient) (void)takeBackOne();
  return true;
}

std::optional<ContentKey> MemoryTier::nextFile(bool impatient) {
  return policy_.victim([this, impatient](const ContentKey& key) {
    const File& file = whole_.at(key);
    return !inUse(file) && std::any_of(file.kept.begin(), file.kept.end(), [&](const Kept& each) {
      return evictable(each.loaded, impatient);
    });
  });
}

bool MemoryTier::dropFile(bool impatient) {
  const std::optional<ContentKey> victim = nextFile(impatient);
  if (!victim) return false;
  evictedFiles_.fetch_add(1, std::memory_order_relaxed);
  dropAll(whole_, whole_.find(*victim));
  return true;
}

MemoryTier::Claim MemoryTier::claim() {
  // A file that passes through goes on in its own slots, even if its reader has yet to come to
  // them.
  if (oldestIdle(passing_, false).files != nullptr) return {Clock::time_point::min(), false};
  const std::optional<ContentKey> victim = nextFile(false);
  if (!victim && !passing_.empty()) return {Clock::time_point::min(), false};
  if (!victim) return {Clock::now() - kClaimMargin, true};
  return {whole_.at(*victim).used - kClaimMargin, policy_.usedAgain(*victim)};
}

bool MemoryTier::yieldTo(const Claim& claim) {
  if (const Candidate chunk = oldestIdle(passing_, false);
      chunk.files != nullptr && chunk.place->since < claim.before) {
    drop(passing_, chunk.file, chunk.place);
    return true;
  }
  const std::optional<ContentKey> victim = nextFile(false);
  if (!victim || whole_.at(*victim).used >= claim.before) return false;
  if (policy_.usedAgain(*victim) && !claim.again) return false;
  return dropFile(false);
}

// Drops the newest chunk that a reader has yet to come to, when chunks fill half of the memory.
bool MemoryTier::dropNewest() {
  if (chunks() <= stock_.size() / 2) return false;
  Candidate newest;
  for (Files* const files : {&whole_, &passing_}) {
    for (auto file = files->begin(); file != files->end(); ++file) {
      const std::shared_ptr<KeyFetch> fetch = file->second.fetch.lock();
      std::list<Kept>& kept = file->second.kept;
      const auto last = std::find_if(kept.rbegin(), kept.rend(), [&](const Kept& each) {
        return !nowhereElse(fetch.get(), each) && evictable(each.loaded, true);
      });
      if (last == kept.rend()) continue;
      const Place place = std::prev(last.base());
      if (newest.files != nullptr && place->since <= newest.place->since) continue;
      newest = {files, file, place};
    }
  }
  return dropCandidate(newest);
}

bool MemoryTier::dropAwaited() {
  Candidate oldest;
  Clock::time_point used = Clock::now() - kReaderTimeout;
  for (Files* const files : {&whole_, &passing_}) {
    for (auto file = files->begin(); file != files->end(); ++file) {
      const std::shared_ptr<KeyFetch> fetch = file->second.fetch.lock();
      for (Place each = file->second.kept.begin(); each != file->second.kept.end(); ++each) {
        const Clock::time_point last = lastUse(fetch.get(), *each);
        if (last > used || !evictable(each->loaded, true)) continue;
        oldest = {files, file, each};
        used = last;
      }
    }
  }
  return dropCandidate(oldest);
}

bool MemoryTier::dropCandidate(const Candidate& candidate) {
  if (candidate.files == nullptr) return false;
  drop(*candidate.files, candidate.file, candidate.place);
  (void)takeBackOne();
  return true;
}

void MemoryTier::drop(Files& files, Files::iterator file, Place place) {
  const Kept dropped = std::move(*place);
  const std::shared_ptr<LoadedChunks> chunks = file->second.chunks;
  file->second.places.erase(dropped.chunk);
  file->second.kept.erase(place);
  chunks_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(dropped.bytes, std::memory_order_relaxed);
  if (lent(dropped.loaded)) lent_.push_back(dropped.loaded);
  if (file->second.kept.empty()) {
    if (&files == &whole_) policy_.remove(file->first);
    files.erase(file);
  } else if (&files == &whole_) {
    policy_.insert(file->first, file->second.kept.size() * kChunkBytes);
  }
  // Last, as the slot that comes back may serve a waiter, which may ask for more.
  if (const std::shared_ptr<LoadedChunk> loaded = dropped.loaded.lock())
    chunks->erase(dropped.chunk, *loaded);
}

void MemoryTier::dropAll(Files& files, Files::iterator file) {
  const File dropped = std::move(file->second);
  if (&files == &whole_) policy_.remove(file->first);
  files.erase(file);
  for (const Kept& each : dropped.kept) {
    chunks_.fetch_sub(1, std::memory_order_relaxed);
    bytes_.fetch_sub(each.bytes, std::memory_order_relaxed);
    if (lent(each.loaded)) lent_.push_back(each.loaded);
    if (const std::shared_ptr<LoadedChunk> loaded = each.loaded.lock())
      dropped.chunks->erase(each.chunk, *loaded);
  }
}

void MemoryTier::tick() {
  ticking_ = false;
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  stock_.serve();
}

}  // namespace hearth
