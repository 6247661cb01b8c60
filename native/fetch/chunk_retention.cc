#include "fetch/chunk_retention.h"

#include <algorithm>

namespace hearth {
namespace {

// Longer than a reader that runs at the speed of fetching needs for all buffers; short enough that
// a reader that has stopped delays others' fetching by nothing that they notice.
constexpr auto kReaderTimeout = std::chrono::milliseconds(200);
constexpr auto kLongest = std::chrono::seconds(2);
constexpr auto kTick = std::chrono::milliseconds(100);

}  // namespace

ChunkRetention::ChunkRetention(Reactor& reactor, BufferPool& pool) : pool_(pool), timer_(reactor) {
  pool_.setReclaim([this] { return dropOne(); });
}

void ChunkRetention::keep(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
                          std::shared_ptr<LoadedChunk> loaded) {
  if (kept_.empty() && lent_.empty()) timer_.start(Clock::now() + kTick, [this] { tick(); });
  kept_.push_back({fetch, chunk, loaded, Clock::now()});
  fetch->loaded.put(chunk, std::move(loaded));
  while (tooMany()) {
    const auto spare = std::find_if(kept_.begin(), kept_.end(), idle);
    const auto newest = std::find_if_not(kept_.rbegin(), kept_.rend(), passing);
    drop(spare == kept_.end() ? std::prev(newest.base()) : spare);
  }
}

void ChunkRetention::clear() {
  while (!kept_.empty()) drop(kept_.begin());
  timer_.cancel();
}

bool ChunkRetention::idle(const Kept& kept) {
  const std::shared_ptr<LoadedChunk> loaded = kept.loaded.lock();
  if (loaded == nullptr || loaded->taken.load(std::memory_order_relaxed) >= loaded->bytes.size())
    return true;
  const std::shared_ptr<KeyFetch> fetch = kept.fetch.lock();
  return fetch == nullptr || !fetch->awaited();
}

bool ChunkRetention::passing(const Kept& kept) {
  const std::shared_ptr<KeyFetch> fetch = kept.fetch.lock();
  return fetch != nullptr && fetch->cache != nullptr && !fetch->cache->resident(kept.chunk);
}

Clock::time_point ChunkRetention::lastUse(const Kept& kept) {
  const std::shared_ptr<LoadedChunk> loaded = kept.loaded.lock();
  const Clock::time_point taken =
      loaded == nullptr ? kept.since : loaded->takenAt.load(std::memory_order_relaxed);
  return passing(kept) ? std::max(kept.since, taken) : kept.since;
}

bool ChunkRetention::tooMany() const {
  const auto most = static_cast<std::ptrdiff_t>(pool_.capacity() / 2);
  const auto elsewhere = [](const Kept& kept) { return !passing(kept); };
  return std::count_if(kept_.begin(), kept_.end(), elsewhere) > most;
}

bool ChunkRetention::evictable(const std::weak_ptr<LoadedChunk>& loaded, bool impatient) {
  const std::shared_ptr<LoadedChunk> chunk = loaded.lock();
  const auto since = chunk == nullptr ? std::nullopt : chunk->lentSince();
  return !since || (impatient && Clock::now() - *since >= kReaderTimeout);
}

bool ChunkRetention::takeBackOne() {
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  const auto place = std::find_if(lent_.begin(), lent_.end(),
                                  [](const auto& each) { return evictable(each, true); });
  if (place == lent_.end()) return false;
  const std::shared_ptr<LoadedChunk> chunk = place->lock();
  lent_.erase(place);
  chunk->takeBack();
  return true;
}

bool ChunkRetention::dropOne() {
  for (const bool impatient : {false, true}) {
    if (impatient && takeBackOne()) return true;
    const auto place = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return idle(kept) && evictable(kept.loaded, impatient);
    });
    if (place == kept_.end()) continue;
    drop(place);
    (void)takeBackOne();
    return true;
  }
  auto place = kept_.end();
  for (auto each = kept_.begin(); each != kept_.end(); ++each) {
    if (idle(*each) || !evictable(each->loaded, true)) continue;
    if (place == kept_.end() || lastUse(*each) < lastUse(*place)) place = each;
  }
  if (place == kept_.end() || Clock::now() - lastUse(*place) < kReaderTimeout) return false;
  drop(place);
  (void)takeBackOne();
  return true;
}

void ChunkRetention::drop(Place place) {
  // Out of the list first: the buffer that comes back serves a waiter, who may ask for more.
  const Kept dropped = std::move(*place);
  kept_.erase(place);
  if (!evictable(dropped.loaded, false)) lent_.push_back(dropped.loaded);
  const std::shared_ptr<KeyFetch> fetch = dropped.fetch.lock();
  const std::shared_ptr<LoadedChunk> loaded = dropped.loaded.lock();
  if (fetch != nullptr && loaded != nullptr) fetch->loaded.erase(dropped.chunk, *loaded);
}

void ChunkRetention::tick() {
  const Clock::time_point now = Clock::now();
  const auto old = [now](const Kept& kept) { return now - lastUse(kept) > kLongest; };
  // From the beginning each time: what serves a waiter may drop others.
  for (auto place = kept_.begin(); place != kept_.end();) {
    place = std::find_if(kept_.begin(), kept_.end(), old);
    if (place != kept_.end()) drop(place);
  }
  pool_.serveWaiters();
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  if (!kept_.empty() || !lent_.empty()) timer_.start(Clock::now() + kTick, [this] { tick(); });
}

}  // namespace hearth
