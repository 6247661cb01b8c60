#include "engine/chunk_retention.h"

#include <algorithm>

namespace hearth {
namespace {

// Longer than a reader that runs at the speed of fetching needs for all buffers; short enough that
// a reader that has stopped delays others' fetching by nothing that they notice.
constexpr auto kReaderPatience = std::chrono::milliseconds(200);
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
  while (kept_.size() > pool_.capacity() / 2) {
    const auto spare = std::find_if(kept_.begin(), kept_.end(), idle);
    drop(spare == kept_.end() ? std::prev(kept_.end()) : spare);
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

bool ChunkRetention::mayGo(const std::weak_ptr<LoadedChunk>& loaded, bool impatient) {
  const std::shared_ptr<LoadedChunk> chunk = loaded.lock();
  const auto since = chunk == nullptr ? std::nullopt : chunk->lentSince();
  return !since || (impatient && Clock::now() - *since >= kReaderPatience);
}

bool ChunkRetention::takeBackOne() {
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  const auto place =
      std::find_if(lent_.begin(), lent_.end(), [](const auto& each) { return mayGo(each, true); });
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
      return idle(kept) && mayGo(kept.loaded, impatient);
    });
    if (place == kept_.end()) continue;
    drop(place);
    (void)takeBackOne();
    return true;
  }
  const auto place = std::find_if(kept_.begin(), kept_.end(), [](const Kept& kept) {
    return !idle(kept) && mayGo(kept.loaded, true);
  });
  if (place == kept_.end() || Clock::now() - place->since < kReaderPatience) return false;
  drop(place);
  (void)takeBackOne();
  return true;
}

void ChunkRetention::drop(Place place) {
  // Out of the list first: the buffer that comes back serves a waiter, who may ask for more.
  const Kept dropped = std::move(*place);
  kept_.erase(place);
  if (!mayGo(dropped.loaded, false)) lent_.push_back(dropped.loaded);
  const std::shared_ptr<KeyFetch> fetch = dropped.fetch.lock();
  const std::shared_ptr<LoadedChunk> loaded = dropped.loaded.lock();
  if (fetch != nullptr && loaded != nullptr) fetch->loaded.erase(dropped.chunk, *loaded);
}

void ChunkRetention::tick() {
  while (!kept_.empty() && Clock::now() - kept_.front().since > kLongest) drop(kept_.begin());
  pool_.serveWaiters();
  std::erase_if(lent_, [](const auto& each) { return each.expired(); });
  if (!kept_.empty() || !lent_.empty()) timer_.start(Clock::now() + kTick, [this] { tick(); });
}

}  // namespace hearth
